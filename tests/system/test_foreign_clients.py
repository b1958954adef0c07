"""Clients that we did not choose: OpenAI's SDK for Node, the AI SDK, AG-UI's client, and LangChain."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests import installed
from tests.system.calling import Caller, MakeAgent
from tests.system.test_attachments import IMAGE_URL, PDF_URL, SEES_BOTH

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ORDER = "Where is my order ORD-1001?"
MAP = f"{ORDER} Then show_map of it."
MESSAGES = ["Hi, my name is Ada.", ORDER, "What is my name?"]
FILES = {"IMAGE": IMAGE_URL, "PDF": PDF_URL}
_HERE = Path(__file__).parent

USE_CHAT = [("ai_sdk_clients", "ai"), ("ai_sdk_clients", "ai-7")]
AG_UI = [("ag_ui_clients", "@ag-ui/client"), ("ag_ui_clients", "ag-ui-before")]
OPENAI_PROVIDERS = pytest.mark.parametrize(
    "versions",
    [{"PROVIDER_VERSION": "3", "AI_VERSION": "6"}, {"PROVIDER_VERSION": "4", "AI_VERSION": "7"}],
    ids=["AI SDK 6", "AI SDK 7"],
)


async def run_node(folder: str, *command: str, **environ: str) -> Any:
    """The JSON that a script of a folder with its own packages prints."""
    return await installed.run_json(
        await installed.node_packages(_HERE / folder), "node", *command, **environ
    )


async def run_langchain(script: str, caller: Caller, **environ: str) -> Any:
    python = await installed.python_packages("langchain", "langchain_openai", "langchain-openai==1.7.4")
    return await installed.run_json(
        _HERE / "openai_clients", python, script, **name_openai(caller), **environ
    )


def name_openai(caller: Caller) -> dict[str, str]:
    """The variables of clients of OpenAI."""
    return {
        "OPENAI_BASE_URL": f"{caller.base_url}/openai/v1",
        "OPENAI_API_KEY": caller.headers["X-Api-Key"],
        "AGENT": caller.agent_id,
    }


@pytest.mark.parametrize("client", ["node", "langchain"])
async def test_an_openai_client_streams_goes_on_and_is_refused(
    caller: Caller, make_agent: MakeAgent, client: str
) -> None:
    thinking = await make_agent("demo-shop-1?think=1", reasoning="summary")
    environ = {"THINKING_AGENT": thinking.agent_id, "THINKING_KEY": thinking.headers["X-Api-Key"]}
    if client == "node":
        environ |= name_openai(caller)
        told = await run_node("openai_clients", "client_node.mjs", QUESTION=ORDER, **environ)
    else:
        told = await run_langchain("client_langchain.py", caller, QUESTION=ORDER, **environ)
    saved = [message["content"] for message in await caller.messages(told["conversation"])]
    assert saved == [ORDER, told["text"], "Thanks!", told["reply"]], "both turns in one conversation"
    assert "ORD-1001" in told["structured"], "a reply in JSON, by the schema of the request"
    assert told["models"]
    assert told["thought"] == ["The user asks: Hello"]
    assert told["finish"] == "stop"
    assert told["calls"] == 0
    assert told["refused"] == {"status": 400, "param": "n", "type": "invalid_request_error"}


@OPENAI_PROVIDERS
async def test_three_turns_are_one_conversation(caller: Caller, versions: dict[str, str]) -> None:
    environ = name_openai(caller) | versions | {"MESSAGES": json.dumps(MESSAGES)}
    told = await run_node("ai_sdk_openai", "client.mjs", **environ)
    assert "Ada" in told["replies"][0]
    assert "ORD-1001" in told["replies"][1]
    assert told["replies"][2] == "Your name is Ada."
    (conversation,) = set(told["conversations"])
    assert [each["content"] for each in await caller.messages(conversation)][::2] == MESSAGES


@OPENAI_PROVIDERS
async def test_tools_of_the_application_and_approvals_go_on(
    make_agent: MakeAgent, versions: dict[str, str]
) -> None:
    """Calls of client tools and approvals are named by references to our items."""
    caller = await make_agent("demo-shop-1", shop=True)
    asking = await make_agent("demo-shop-1", shop=True, asks=True)
    environ = name_openai(caller) | versions | {"ASKING": asking.agent_id, "MAP": MAP, "ORDER": ORDER}
    told = await run_node("ai_sdk_openai", "tools.mjs", **environ)
    assert len(told["shown"]) == 1
    assert "Ulm" in told["mapped"]
    assert told["requests"] == len(told["results"]) > 0
    assert "ORD-1001" in told["approved"]
    assert len(set(told["conversations"])) == 1, "it is one conversation"


@pytest.mark.parametrize(("folder", "version"), [*USE_CHAT, *AG_UI])
async def test_a_client_sends_files_and_continues_the_conversation(
    caller: Caller, folder: str, version: str
) -> None:
    told = await run_node(folder, "files.mjs", version, **caller.environ, **FILES)
    assert (told.get("error"), told["turns"]) == (None, 4)
    assert SEES_BOTH in told["text"]


async def test_langchain_sends_files(caller: Caller) -> None:
    told = await run_langchain("files_langchain.py", caller, **FILES)
    assert all(SEES_BOTH in text for text in told.values())
    assert set(told) == {"completions", "responses"}


@pytest.mark.parametrize(("folder", "version"), USE_CHAT)
async def test_use_chat_runs_a_tool_and_goes_on(make_agent: MakeAgent, folder: str, version: str) -> None:
    caller = await make_agent("demo-shop-1", shop=True)
    told = await run_node(folder, "client_tool.mjs", version, **caller.environ, QUESTION=MAP)
    assert (told["error"], told["shown"]) == (None, 1)
    assert ["show_map", "output-available"] in told["states"]
    assert "Ulm" in told["text"]


@pytest.mark.parametrize(("folder", "version"), AG_UI)
async def test_ag_ui_runs_a_frontend_tool(make_agent: MakeAgent, folder: str, version: str) -> None:
    caller = await make_agent("demo-shop-1", shop=True)
    told = await run_node(folder, "frontend_tool.mjs", version, **caller.environ, QUESTION=MAP)
    assert told["role"] == "assistant"
    assert "Ulm" in told["text"]


async def test_langchain_binds_tools(make_agent: MakeAgent) -> None:
    caller = await make_agent("demo-shop-1", shop=True)
    told = await run_langchain("client_tools_langchain.py", caller, QUESTION=MAP)
    for api in ("completions", "responses"):
        assert told[api]["calls"] == ["show_map"]
        assert "Ulm" in told[api]["text"]
