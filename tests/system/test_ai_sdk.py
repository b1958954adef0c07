"""The protocol of the AI SDK's chats (docs/integrate/ai-sdk.md): by its own client, and on the wire."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import installed
from tests.system.calling import Caller, MakeAgent

pytestmark = pytest.mark.slow

QUESTION = "Where is my order ORD-1001?"
_CLIENT = Path(__file__).parent / "ai_sdk_clients"


def build_message(text: str, role: str = "user") -> dict[str, Any]:
    return {"id": "m", "role": role, "parts": [{"type": "text", "text": text}]}


def url(caller: Caller, agent: str | None = None) -> str:
    return f"{caller.base_url}/ai-sdk/v1/agents/{agent or caller.headers['X-Agent-Id']}/chat"


def key(caller: Caller) -> dict[str, str]:
    return {"X-Api-Key": caller.headers["X-Api-Key"]}


async def ask(caller: Caller, *messages: dict[str, Any], **fields: Any) -> httpx.Response:
    body = {"messages": messages, **fields}
    return await caller.http.post(url(caller), json=body, headers=key(caller))


def chunks(response: httpx.Response) -> list[dict[str, Any]]:
    """Those of a whole stream, without its mark of the end, which it has."""
    assert response.status_code == 200, response.text
    assert response.headers["x-vercel-ai-ui-message-stream"] == "v1"
    *events, done, left = response.text.split("\n\n")
    assert (done, left) == ("data: [DONE]", "")
    return [json.loads(event[6:]) for event in events if not event.startswith(":")]


def text_of(told: list[dict[str, Any]]) -> str:
    return "".join(chunk["delta"] for chunk in told if chunk["type"] == "text-delta")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", ["ai", "ai-7"])
async def test_its_client_goes_on_regenerates_resumes_and_is_refused(
    make_agent: MakeAgent, version: str
) -> None:
    caller = await make_agent("demo-shop-1", shop=True)
    slow, failing = (
        await make_agent("demo-load?deltas=200&delay_ms=50"),
        await make_agent("demo-echo?fail=400"),
    )
    thinking = await make_agent("demo-shop-1?think=1", reasoning="summary")
    folder = await installed.node_packages(_CLIENT)
    told = await installed.run_json(
        folder,
        *("node", "chat.mjs", version),
        **caller.environ,
        SLOW_AGENT=slow.headers["X-Agent-Id"],
        FAILING_AGENT=failing.headers["X-Agent-Id"],
        THINKING_AGENT=thinking.agent_id,
        QUESTION=QUESTION,
    )
    assert (told["status"], told["error"]) == ("ready", None)
    first, second = told["turns"][1], told["turns"][3]
    conversation = first["metadata"]["conversationId"]
    assert second["metadata"]["conversationId"] == conversation, "both turns are in one conversation"
    saved = await caller.messages(conversation)
    assert [each["content"] for each in saved] == [turn["text"] for turn in told["turns"]]
    assert [saved[1]["id"], saved[3]["id"]] == [first["id"], second["id"]]
    assert first["metadata"]["usage"]["totalTokens"] == saved[1]["token_count"]
    (tool,) = told["tools"]
    assert tool["state"] == "output-available"
    assert tool["input"] == {"order_id": "ORD-1001"}
    assert tool["output"], "with what it returned"
    assert told["regenerated"] != conversation, "a reply made again is in a fork"
    contents = [each["content"] for each in await caller.messages(told["regenerated"])]
    assert contents[:3] == [turn["text"] for turn in told["turns"][:3]]
    row = (await caller.get(f"/v1/conversations/{told['regenerated']}")).json()
    assert row["forked_from"]["conversation_id"] == conversation
    assert told["again"] == told["slow"] != ""
    assert told["thinking"] == [{"text": "The user asks: Hello", "state": "done"}]
    assert told["idle"] == 2, "nothing is under way any more"
    assert told["failing"]["status"] == told["refused"]["status"] == "error"
    assert told["failing"]["message"].startswith("provider_error: ")
    assert told["refused"]["message"].startswith("invalid_api_key: ")
