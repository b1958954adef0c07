"""The AI SDK's provider of OpenAI at the Responses API: each turn goes on where the one before ended."""

import json
from pathlib import Path

import pytest

from tests import installed
from tests.system.calling import Caller, MakeAgent

pytestmark = pytest.mark.slow

_HERE = Path(__file__).parent / "ai_sdk_openai"
_MESSAGES = ["Hi, my name is Ada.", "Where is my order ORD-1001?", "What is my name?"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("provider", "sdk"), [("3", "6"), ("4", "7")])
async def test_three_turns_are_one_conversation(caller: Caller, provider: str, sdk: str) -> None:
    folder = await installed.node_packages(_HERE)
    told = await installed.run_json(
        folder,
        *("node", "client.mjs"),
        OPENAI_BASE_URL=f"{caller.base_url}/openai/v1",
        OPENAI_API_KEY=caller.headers["X-Api-Key"],
        AGENT=caller.headers["X-Agent-Id"],
        AI_VERSION=sdk,
        PROVIDER_VERSION=provider,
        MESSAGES=json.dumps(_MESSAGES),
    )
    assert "Ada" in told["replies"][0]
    assert "ORD-1001" in told["replies"][1]
    assert told["replies"][2] == "Your name is Ada."
    (conversation,) = set(told["conversations"])
    assert [each["content"] for each in await caller.messages(conversation)][::2] == _MESSAGES


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("provider", "sdk"), [("3", "6"), ("4", "7")])
async def test_tools_of_the_application_and_approvals_go_on(
    make_agent: MakeAgent, provider: str, sdk: str
) -> None:
    """Calls of client tools and approvals are named by references to our items."""
    caller = await make_agent("demo-shop-1", shop=True)
    asking = await make_agent("demo-shop-1", shop=True, asks=True)
    folder = await installed.node_packages(_HERE)
    told = await installed.run_json(
        folder,
        *("node", "tools.mjs"),
        OPENAI_BASE_URL=f"{caller.base_url}/openai/v1",
        OPENAI_API_KEY=caller.headers["X-Api-Key"],
        AGENT=caller.agent_id,
        ASKING=asking.agent_id,
        AI_VERSION=sdk,
        PROVIDER_VERSION=provider,
        MAP="Where is my order ORD-1001? Then show_map of it.",
        ORDER="Where is my order ORD-1001?",
    )
    assert len(told["shown"]) == 1
    assert "Ulm" in told["mapped"]
    assert told["requests"] == len(told["results"]) > 0
    assert "ORD-1001" in told["approved"]
    assert len(set(told["conversations"])) == 1, "it is one conversation"
