"""The AI SDK's provider of OpenAI at the Responses API: each turn goes on where the one before ended."""

import json
from pathlib import Path

import pytest

from tests import installed
from tests.system.calling import Caller

pytestmark = pytest.mark.slow

_HERE = Path(__file__).parent / "ai_sdk_openai"
_MESSAGES = ["Hi, my name is Ada.", "Where is my order ORD-1001?", "What is my name?"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("provider", "sdk"), [("3", "6"), ("4", "7")])
async def test_three_turns_are_one_conversation(caller: Caller, provider: str, sdk: str) -> None:
    folder = await installed.node_packages(_HERE)
    told = await installed.told(
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
