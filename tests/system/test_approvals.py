"""Tool calls that need approval, as callers meet them: over every protocol, on two gateways."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from tests.gateway.admin import AdminClient
from tests.harness import RunningStack
from tests.system.calling import Caller, MakeAgent, events_of

CANCEL = "Cancel ORD-{} because it is a double"
SECONDS = 90.0


@pytest.fixture
def at_both(stack: RunningStack, caller: Caller) -> list[Caller]:
    return [caller.at(url) for url in stack.environment.gateway_urls]


async def decide(caller: Caller, approval_id: str, decision: str = "approved", **body: Any) -> httpx.Response:
    given = {"decision": decision, **body}
    return await caller.send("POST", f"/v1/approvals/{approval_id}/decision", json=given)


async def chat_to_pause(caller: Caller, order: int, key: str | None = None) -> dict[str, Any]:
    """The problem by which a JSON call is told that a person has to decide."""
    named = {"Idempotency-Key": key} if key else {}
    response = await caller.http.post(
        f"{caller.base_url}/v1/chat",
        json={"message": CANCEL.format(order)},
        headers={**caller.headers, **named},
    )
    assert response.status_code == 409, response.text
    problem: dict[str, Any] = response.json()
    assert problem["code"] == "approval_required"
    return problem


async def read_events(caller: Caller, trace_id: str, cursor: str = "", form: int | str = 2) -> bytes:
    """All that GET /v1/chat/{trace_id}/events sends, but for comments."""
    headers = {"X-Stream-Form": str(form), **({"Last-Event-ID": cursor} if cursor else {})}
    response = await caller.send("GET", f"/v1/chat/{trace_id}/events", headers=headers)
    assert response.status_code == 200, response.text
    return response.content.replace(b": ping\n\n", b"")


async def until_listed(
    ask: Callable[[], Awaitable[httpx.Response]], trace_id: str | None = None
) -> list[dict[str, Any]]:
    """Return the rows of a list, of this run or of any, once there are some: lists lag by a moment."""
    async with asyncio.timeout(SECONDS):
        while True:
            rows = [row for row in (await ask()).json()["data"] if trace_id in (None, row["trace_id"])]
            if rows:
                return rows
            await asyncio.sleep(0.2)


async def reply_of(caller: Caller, trace_id: str) -> bytes:
    """The stream from its beginning, once it has come to its end."""
    async with asyncio.timeout(SECONDS):
        while b'"code":"approval_required"' in (read := await read_events(caller, trace_id)):  # noqa: ASYNC110 - of other processes
            await asyncio.sleep(0.2)
        return read


@pytest.mark.parametrize(("form", "order"), [(1, 1033), (2, 1031)])
async def test_stream_ends_at_an_approval_and_resumes_after_it(
    at_both: list[Caller], form: int, order: int
) -> None:
    one, other = at_both
    async with one.open_stream(CANCEL.format(order), form) as response:
        trace_id = response.headers["x-trace-id"]
        told = [event async for event in events_of(response)]
    last = told[-1]
    assert (last["type"], last["code"]) == ("error", "approval_required")
    (needed,) = last["approvals"]
    assert (needed["tool"], needed["input"]["order_id"]) == ("cancel_order", f"ORD-{order}")
    before = await read_events(other, trace_id, form=form)
    *kept, ended = before.split(b"\n\n")[:-1]
    assert ended.startswith(b"data: ")  # without an id: the gateway's own
    cursor = kept[-1].split(b"\n")[0].removeprefix(b"id: ").decode()
    shown = (await other.get(f"/v1/approvals/{needed['id']}")).json()
    assert (shown["status"], shown["trace_id"], shown["tool"]["server"]) == ("pending", trace_id, "demo-shop")
    decided = await decide(other, needed["id"])
    assert (decided.status_code, decided.json()["status"]) == (200, "approved")
    rest = await read_events(one, trace_id, cursor, form)
    whole = await read_events(other, trace_id, form=form)
    assert b"".join(each + b"\n\n" for each in kept) + rest == whole
    assert b'"type":"done"' in rest
    if form == 2:
        assert whole.count(b'"type":"tool_call"') == 1


async def test_a_json_call_gets_its_reply_by_its_key_once_it_was_decided(at_both: list[Caller]) -> None:
    one, other = at_both
    key = os.urandom(8).hex()
    problem = await chat_to_pause(one, 1032, key)
    assert (await chat_to_pause(other, 1032, key))["approvals"] == problem["approvals"]
    approval_id = problem["approvals"][0]["id"]
    shown = (await one.get(f"/v1/approvals/{approval_id}")).json()
    refused = await one.chat("Hello?", conversation_id=shown["conversation_id"])
    assert (refused.status_code, refused.json()["code"]) == (409, "approval_pending")
    assert refused.json()["approvals"] == [{"id": approval_id}]
    changed = {"order_id": "ORD-1032", "reason": "by phone"}
    assert (await decide(other, approval_id, input=changed, reason="checked")).status_code == 200
    await reply_of(one, problem["trace_id"])
    again = await one.http.post(
        f"{one.base_url}/v1/chat",
        json={"message": CANCEL.format(1032)},
        headers={**one.headers, "Idempotency-Key": key},
    )
    assert again.status_code == 200, again.text
    (call,) = [each for each in again.json()["tool_calls"] if each["name"] == "cancel_order"]
    assert call["input"] == changed
    (listed,) = await until_listed(
        lambda: one.get("/v1/approvals", conversation_id=shown["conversation_id"], status="approved")
    )
    assert (listed["id"], listed["decision"]["input"]) == (approval_id, changed)


async def test_an_impossible_decision_is_refused_with_a_sentence(caller: Caller, starter: Caller) -> None:
    problem = await chat_to_pause(caller, 1034)
    approval_id = problem["approvals"][0]["id"]
    unknown = "0192f0c1-7d11-7aaa-8bbb-0000000000f1"
    for answer in (await decide(starter, approval_id), await decide(caller, unknown)):
        assert (answer.status_code, answer.json()["detail"]) == (404, "There is no such approval.")
    assert (await starter.get("/v1/approvals")).json()["data"] == []
    wrong: list[dict[str, Any]] = [
        {"input": {"order_id": 7}},
        {"input": {}},
        {"by": "me"},
        {"decision": "maybe"},
        {"decision": "denied", "input": {}},
    ]
    for body in wrong:
        answer = await decide(caller, approval_id, **body)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request"), body
    assert (await caller.get(f"/v1/approvals/{approval_id}")).json()["status"] == "pending"
    assert (await decide(caller, approval_id, "denied", reason="No.")).status_code == 200
    answer = await decide(caller, approval_id)
    assert (answer.status_code, answer.json()["code"]) == (409, "approval_decided")


async def test_an_operator_decides_by_the_admin_api(caller: Caller, admin_api: AdminClient) -> None:
    problem = await chat_to_pause(caller, 1037)
    decision = f"/approvals/{problem['approvals'][0]['id']}/decision"
    admin_api.headers["X-Admin-Actor"] = "ada@console"
    decided = await admin_api.post(decision, {"decision": "denied"}, status=200)
    assert decided["decision"]["by"] == {"kind": "operator", "id": "ada@console"}
    late = {"decision": "approved"}
    assert await admin_api.refused("POST", decision, late, status=409, code="approval_decided") == []
    await reply_of(caller, problem["trace_id"])
    query = {"status": "denied", "conversation_id": decided["conversation_id"]}
    (listed,) = await until_listed(lambda: admin_api.send("GET", "/approvals", **query))
    assert listed.items() <= decided.items()
    assert listed["message"].startswith("Cancel ORD-1037")


async def test_nobody_decides_in_time_and_the_sweeper_has_the_run_go_on(make_agent: MakeAgent) -> None:
    impatient = await make_agent("demo-shop-1", shop=True, asks=True, approval_seconds=1)
    problem = await chat_to_pause(impatient, 1039)
    read = await reply_of(impatient, problem["trace_id"])
    assert b"its approval expired" in read
    answer = await decide(impatient, problem["approvals"][0]["id"])
    assert (answer.status_code, answer.json()["code"]) == (410, "approval_expired")
