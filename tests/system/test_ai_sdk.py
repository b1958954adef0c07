"""The protocol of the AI SDK's chats (docs/integrate/ai-sdk.md): by its own client, and on the wire.

Tool calls that need approval too.
"""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import installed
from tests.system.calling import QUESTION, Caller, MakeAgent, make_client_agents

_CLIENT = Path(__file__).parent / "ai_sdk_clients"
_VERSIONS = pytest.mark.parametrize("version", ["ai", "ai-7"])


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


@pytest.mark.slow
@pytest.mark.timeout(600)
@_VERSIONS
async def test_its_client_goes_on_regenerates_resumes_and_is_refused(
    make_agent: MakeAgent, version: str
) -> None:
    caller, environ = await make_client_agents(make_agent)
    folder = await installed.node_packages(_CLIENT)
    told = await installed.run_json(folder, "node", "chat.mjs", version, **environ)
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


def build_decision(approval_id: str, approved: bool = True, **more: Any) -> dict[str, Any]:
    """The message of the agent, with what a person has said of its call."""
    part = {"type": "dynamic-tool", "toolCallId": "c", "toolName": "get_order", "input": {}}
    approval = {"id": approval_id, "approved": approved, **more}
    part |= {"state": "approval-responded", "approval": approval}
    return {"id": "m", "role": "assistant", "parts": [{"type": "step-start"}, part]}


async def open_approval(caller: Caller, key: str) -> str:
    """The id of the approval that a new chat waits for."""
    told = chunks(await ask(caller, build_message(QUESTION), id=key))
    (request,) = [chunk for chunk in told if chunk["type"] == "tool-approval-request"]
    return str(request["approvalId"])


def refused(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.text.partition(": ")[0]


@pytest.mark.slow
@pytest.mark.timeout(600)
@_VERSIONS
async def test_its_client_is_asked_and_goes_on(make_agent: MakeAgent, version: str) -> None:
    caller = await make_agent("demo-shop-1", shop=True, asks=True)
    operators = await make_agent("demo-shop-1", shop=True, asks=True, approvers="operator")
    folder = await installed.node_packages(_CLIENT)
    told = await installed.run_json(
        folder,
        *("node", "approving.mjs", version),
        **caller.environ,
        OPERATORS_AGENT=operators.headers["X-Agent-Id"],
        QUESTION=QUESTION,
    )
    (waits,) = told["waiting"]["tools"]
    assert (told["waiting"]["status"], waits["state"]) == ("ready", "approval-requested")
    approved, denied = told["approved"], told["denied"]
    for each in (approved, denied, told["again"]):
        assert (each["status"], each["error"], each["roles"]) == ("ready", None, ["user", "assistant"])
        assert each["steps"] == 2
    saved = await caller.messages(approved["conversation"])
    assert [each["content"] for each in saved[:2]] == [QUESTION, approved["text"]]
    assert {approved["id"], told["waiting"]["id"], told["again"]["id"]} == {saved[1]["id"]}
    assert told["again"]["text"] == approved["text"]
    (ran,) = approved["tools"]
    assert (ran["state"], ran["input"]) == ("output-available", {"order_id": "ORD-1001"})
    assert ran["output"]
    assert told["next"] == approved["conversation"]
    assert [each["state"] for each in denied["tools"]] == ["output-denied"]
    assert told["decided"]["error"].startswith("approval_decided: ")
    assert told["forbidden"]["error"].startswith("approval_forbidden: ")


async def test_decisions_about_unknown_approvals_are_refused(make_agent: MakeAgent, starter: Caller) -> None:
    caller, other = [await make_agent("demo-shop-1", shop=True, asks=True) for _ in range(2)]
    approval_id = await open_approval(caller, "refused")
    for wrong, given in (
        (caller, build_decision("0192f0c1-7d11-7aaa-8bbb-0000000000f1")),
        (caller, build_decision("no id")),
        (other, build_decision(approval_id)),
        (starter, build_decision(approval_id)),
    ):
        assert refused(await ask(wrong, given, id="refused")) == (404, "not_found")
    long = build_decision(approval_id, False, reason="x" * 2001)
    assert refused(await ask(caller, build_message(QUESTION), long, id="refused")) == (400, "invalid_request")
    mixed = build_decision(approval_id)
    mixed["parts"] += build_decision(await open_approval(caller, "another"))["parts"]
    assert refused(await ask(caller, mixed)) == (400, "invalid_request")
    many = build_decision(approval_id)
    many["parts"] *= 65
    assert refused(await ask(caller, many)) == (400, "invalid_request")
