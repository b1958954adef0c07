"""Tools of clients that we did not choose: useChat's client, AG-UI's, and LangChain's bind_tools."""

from pathlib import Path

import pytest

from tests import installed
from tests.system.calling import MakeAgent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ASK = "Where is my order ORD-1001? Then show_map of it."
_HERE = Path(__file__).parent


@pytest.mark.parametrize("version", ["ai", "ai-7"])
async def test_use_chat_runs_a_tool_and_goes_on(make_agent: MakeAgent, version: str) -> None:
    caller = await make_agent("demo-shop-1", shop=True)
    folder = await installed.node_packages(_HERE / "ai_sdk_clients")
    command = ("node", "client_tool.mjs", version)
    told = await installed.run_json(folder, *command, **caller.environ, QUESTION=ASK)
    assert (told["error"], told["shown"]) == (None, 1)
    assert ["show_map", "output-available"] in told["states"]
    assert "Ulm" in told["text"]


@pytest.mark.parametrize("version", ["@ag-ui/client", "ag-ui-before"])
async def test_ag_ui_runs_a_frontend_tool(make_agent: MakeAgent, version: str) -> None:
    caller = await make_agent("demo-shop-1", shop=True)
    folder = await installed.node_packages(_HERE / "ag_ui_clients")
    command = ("node", "frontend_tool.mjs", version)
    told = await installed.run_json(folder, *command, **caller.environ, QUESTION=ASK)
    assert told["role"] == "assistant"
    assert "Ulm" in told["text"]


async def test_langchain_binds_tools(make_agent: MakeAgent) -> None:
    caller = await make_agent("demo-shop-1", shop=True)
    python = await installed.python_packages("langchain", "langchain_openai", "langchain-openai==1.7.4")
    told = await installed.run_json(
        _HERE / "openai_clients",
        *(python, "client_tools_langchain.py"),
        OPENAI_BASE_URL=f"{caller.base_url}/openai/v1",
        OPENAI_API_KEY=caller.headers["X-Api-Key"],
        AGENT=caller.agent_id,
        QUESTION=ASK,
    )
    for api in ("completions", "responses"):
        assert told[api]["calls"] == ["show_map"]
        assert "Ulm" in told[api]["text"]
