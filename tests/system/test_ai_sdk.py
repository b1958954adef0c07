"""The protocol of the AI SDK's chats (docs/integrate/ai-sdk.md): by its own client, and on the wire."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import installed
from tests.system.calling import Caller, MakeAgent

pytestmark = pytest.mark.requirement("AI-SDK")

QUESTION = "Where is my order ORD-1001?"
_CLIENT = Path(__file__).parent / "ai_sdk_clients"


def said(text: str, role: str = "user") -> dict[str, Any]:
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
@pytest.mark.requirement("FORK-SHOWN")
@pytest.mark.parametrize("version", ["ai", "ai-7"])
async def test_its_client_goes_on_regenerates_resumes_and_is_refused(
    make_agent: MakeAgent, version: str
) -> None:
    caller = await make_agent("demo-shop-1", shop=True)
    slow, failing = (
        await make_agent("demo-load?deltas=200&delay_ms=50"),
        await make_agent("demo-echo?fail=400"),
    )
    folder = await installed.node_packages(_CLIENT)
    told = await installed.told(
        folder,
        *("node", "chat.mjs", version),
        **caller.environ,
        SLOW_AGENT=slow.headers["X-Agent-Id"],
        FAILING_AGENT=failing.headers["X-Agent-Id"],
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
    assert told["idle"] == 2, "nothing is under way any more"
    assert told["failing"]["status"] == told["refused"]["status"] == "error"
    assert told["failing"]["message"].startswith("provider_error: ")
    assert told["refused"]["message"].startswith("invalid_api_key: ")


async def test_a_stream_is_the_saved_reply_with_its_sources(policies: Caller) -> None:
    response = await ask(policies, said("May I return an order?"), id="with-sources")
    told = chunks(response)
    assert [told[0]["type"], told[-1]["type"]] == ["start", "finish"]
    assert told[0]["messageMetadata"]["traceId"] == response.headers["x-trace-id"]
    _, reply = await policies.messages(response.headers["x-conversation-id"])
    assert text_of(told) == reply["content"]
    assert told[0]["messageId"] == reply["id"]
    assert [chunk for chunk in told if chunk["type"] == "source-url"]


async def test_an_agent_is_named_by_its_id_or_its_own_name(make_agent: MakeAgent) -> None:
    caller = await make_agent("demo-echo", name="Agent with a name")
    for agent in (caller.headers["X-Agent-Id"].upper(), "Agent%20with%20a%20name"):
        response = await caller.http.post(
            url(caller, agent), json={"messages": [said("hi")]}, headers=key(caller)
        )
        assert "hi" in text_of(chunks(response))
    for agent in ("Agent%20without", "0192f0c1-7d11-7aaa-8bbb-0000000000ff", "%00"):
        response = await caller.http.post(
            url(caller, agent), json={"messages": [said("hi")]}, headers=key(caller)
        )
        assert (response.status_code, response.text.partition(":")[0]) == (404, "agent_not_found")
        again = await caller.http.get(f"{url(caller, agent)}/chat-1/stream", headers=key(caller))
        assert (again.status_code, again.text.partition(":")[0]) == (404, "agent_not_found")


async def test_without_an_id_no_list_shows_the_conversation(make_agent: MakeAgent) -> None:
    caller = await make_agent("demo-echo")
    response = await ask(caller, said("secretly"))
    conversation = response.headers["x-conversation-id"]
    assert conversation[14] == "8", "which is what an unlisted one has there"
    assert (await ask(caller, said("openly"), id="openly")).headers["x-conversation-id"][14] == "7"


async def test_equal_chats_of_other_ids_are_other_conversations(make_agent: MakeAgent) -> None:
    caller = await make_agent("demo-echo")
    first = await ask(caller, said("hi"), id="mine")
    shown = (said("hi"), said(text_of(chunks(first)), "assistant"), said("and?"))
    onward, other = await ask(caller, *shown, id="mine"), await ask(caller, *shown, id="theirs")
    assert onward.headers["x-conversation-id"] == first.headers["x-conversation-id"]
    assert other.headers["x-conversation-id"] != first.headers["x-conversation-id"]
    assert (await caller.http.get(f"{url(caller)}/mine/stream", headers=key(caller))).status_code == 204


async def test_an_idempotency_key_gives_the_same_reply(make_agent: MakeAgent) -> None:
    caller = await make_agent("demo-echo")
    headers = {**key(caller), "Idempotency-Key": "ai-sdk-once"}
    body = {"id": "once", "messages": [said("hi")]}
    first, again = [await caller.http.post(url(caller), json=body, headers=headers) for _ in range(2)]
    assert first.headers["x-trace-id"] == again.headers["x-trace-id"]
    assert text_of(chunks(first)) == text_of(chunks(again))
    body["messages"] = [said("ho")]
    other = await caller.http.post(url(caller), json=body, headers=headers)
    assert (other.status_code, other.text.partition(":")[0]) == (409, "idempotency_conflict")


async def test_a_cancelled_reply_is_an_error_and_never_a_finish(make_agent: MakeAgent) -> None:
    caller = await make_agent("demo-load?deltas=200&delay_ms=50")
    body = {"id": "cancelled", "messages": [said("one two three four five six seven eight")]}
    async with caller.http.stream("POST", url(caller), json=body, headers=key(caller)) as response:
        lines = response.aiter_lines()
        async for line in lines:
            if "text-delta" in line:
                break
        trace = response.headers["x-trace-id"]
        await caller.http.post(f"{caller.base_url}/v1/chat/{trace}/cancel", headers=key(caller))
        rest = [json.loads(line[6:]) async for line in lines if line.startswith("data: ")]
    assert rest[-1]["type"] == "error"
    assert rest[-1]["errorText"].startswith("cancelled: ")
    assert (await caller.http.get(f"{url(caller)}/cancelled/stream", headers=key(caller))).status_code == 204


async def test_what_is_wrong_is_said_in_one_line(caller: Caller) -> None:
    address = url(caller)
    for response, status, code in (
        (await caller.http.post(address, json={}, headers={}), 401, "missing_api_key"),
        (await caller.http.post(address, json={}, headers=key(caller)), 400, "invalid_request"),
        (await caller.http.post(address, content=b"x", headers=key(caller)), 415, "unsupported_media_type"),
        (await caller.http.get(address, headers=key(caller)), 405, "method_not_allowed"),
        (await caller.http.get(f"{address}/c/stream"), 401, "missing_api_key"),
        (await caller.http.get(f"{address}/null/stream", headers=key(caller)), 400, "invalid_request"),
        (await caller.http.get(f"{caller.base_url}/ai-sdk/v2"), 404, "not_found"),
    ):
        assert (response.status_code, response.text.partition(": ")[0]) == (status, code)
        assert response.headers["content-type"] == "text/plain"
        assert len(response.text.splitlines()) == 1
