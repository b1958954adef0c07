"""Clients that we did not choose at the OpenAI API: its SDK for Node, and LangChain."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests import installed
from tests.system.calling import Caller, MakeAgent

pytestmark = pytest.mark.slow

QUESTION = "Where is my order ORD-1001?"
_HERE = Path(__file__).parent / "openai_clients"
Install = Callable[[], Awaitable[tuple[Path, list[str]]]]


async def _install_node() -> tuple[Path, list[str]]:
    return await installed.node_packages(_HERE), ["node", "client_node.mjs"]


async def _install_langchain() -> tuple[Path, list[str]]:
    python = await installed.python_packages("langchain", "langchain_openai", "langchain-openai==1.7.4")
    return _HERE, [python, "client_langchain.py"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("install", [_install_node, _install_langchain])
async def test_a_client_streams_goes_on_and_is_refused(
    caller: Caller, make_agent: MakeAgent, install: Install
) -> None:
    folder, command = await install()
    thinking = await make_agent("demo-shop-1?think=1", reasoning="summary")
    told = await installed.run_json(
        folder,
        *command,
        OPENAI_BASE_URL=f"{caller.base_url}/openai/v1",
        OPENAI_API_KEY=caller.headers["X-Api-Key"],
        AGENT=caller.headers["X-Agent-Id"],
        QUESTION=QUESTION,
        THINKING_AGENT=thinking.agent_id,
        THINKING_KEY=thinking.headers["X-Api-Key"],
    )
    saved = [message["content"] for message in await caller.messages(told["conversation"])]
    assert saved == [QUESTION, told["text"], "Thanks!", told["reply"]], "both turns in one conversation"
    assert "ORD-1001" in told["structured"], "a reply in JSON, by the schema of the request"
    assert told["models"]
    assert told["thought"] == ["The user asks: Hello"]
    assert told["finish"] == "stop"
    assert told["calls"] == 0
    assert told["refused"] == {"status": 400, "param": "n", "type": "invalid_request_error"}
