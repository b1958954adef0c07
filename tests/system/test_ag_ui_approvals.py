"""Tool calls that need approval, at AG-UI: by its own clients, and on the wire."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import installed
from tests.system.calling import Caller, MakeAgent
from tests.system.test_ag_ui import ask, build_input, events, text_of

QUESTION = "Where is my order ORD-1001?"
_CLIENTS = Path(__file__).parent / "ag_ui_clients"


def build_resolution(interrupt: str, **payload: Any) -> dict[str, Any]:
    return {"interruptId": interrupt, "status": "resolved", "payload": {"approved": True, **payload}}


def build_resume_input(thread: str, run: str, *resume: dict[str, Any]) -> dict[str, Any]:
    """The input that answers, with the messages as a client has them."""
    messages = [
        {"id": "1", "role": "user", "content": QUESTION},
        {"id": "2", "role": "assistant", "content": "", "toolCalls": []},
    ]
    return {"threadId": thread, "runId": run, "messages": messages, "resume": resume}


async def open_interrupt(caller: Caller, thread: str) -> str:
    """The id of the interrupt that a new thread waits for."""
    last = events(await ask(caller, build_input(thread, "asked", QUESTION)))[-1]
    (interrupt,) = last["outcome"]["interrupts"]
    return str(interrupt["id"])


def refused(response: httpx.Response) -> tuple[int, str]:
    problem = response.json()
    assert problem["type"] == "RUN_ERROR"
    return response.status_code, problem["code"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("package", ["@ag-ui/client", "ag-ui-before"])
async def test_its_clients_are_asked_and_go_on(make_agent: MakeAgent, package: str) -> None:
    caller = await make_agent("demo-shop-1", shop=True, asks=True)
    operators = await make_agent("demo-shop-1", shop=True, asks=True, approvers="operator")
    folder = await installed.node_packages(_CLIENTS)
    told = await installed.run_json(
        folder,
        *("node", "approving.mjs", package),
        **caller.environ,
        OPERATORS_AGENT=operators.headers["X-Agent-Id"],
        QUESTION=QUESTION,
    )
    (interrupt,) = told["asked"]["outcome"]["interrupts"]
    assert ("expiresAt" in interrupt) == (package == "@ag-ui/client")
    assert told["wrong"]["outcome"] is None
    assert "invalid_request" in told["wrong"]["error"]
    edited = told["edited"]
    assert (edited["outcome"], edited["error"]) == ({"type": "success"}, None)
    assert edited["types"].count("TOOL_CALL_RESULT") == 1
    assert "TOOL_CALL_START" not in edited["types"]
    roles = [message["role"] for message in told["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant"]
    conversation = told["asked"]["ids"]["conversationId"]
    assert edited["ids"]["conversationId"] == told["next"]["ids"]["conversationId"] == conversation
    _, reply, *_ = await caller.messages(conversation)
    texts = [message.get("content") or "" for message in told["messages"]]
    assert reply["content"] == texts[1] + texts[3]
    shown = (await caller.get(f"/v1/approvals/{interrupt['id']}")).json()
    assert shown["decision"]["input"] == {"order_id": "ORD-1002"}
    for each in (told["denied"], told["cancelled"]):
        assert (each["outcome"], each["error"]) == ({"type": "success"}, None)
    assert "approval_forbidden" in told["forbidden"]["error"]


async def test_an_answer_sent_again_is_safe_and_another_is_refused(make_agent: MakeAgent) -> None:
    caller = await make_agent("demo-shop-1", shop=True, asks=True)
    interrupt = await open_interrupt(caller, "again")
    body = build_resume_input("again", "resumed", build_resolution(interrupt))
    one, same = await asyncio.gather(ask(caller, body), ask(caller, body))
    later = await ask(caller, body | {"runId": "another"})
    assert text_of(events(one)) == text_of(events(same)) == text_of(events(later)) != ""
    assert len({each.headers["x-trace-id"] for each in (one, same, later)}) == 1
    assert [each["type"] for each in events(later)][:3] == ["RUN_STARTED", "CUSTOM", "TOOL_CALL_RESULT"]
    otherwise = build_resume_input("again", "no", build_resolution(interrupt, approved=False))
    assert refused(await ask(caller, otherwise)) == (409, "approval_decided")
    late = {"interruptId": interrupt, "status": "cancelled"}
    assert text_of(events(await ask(caller, build_resume_input("again", "late", late)))) == text_of(
        events(one)
    )


async def test_all_that_is_waited_for_is_answered_at_once(make_agent: MakeAgent) -> None:
    caller = await make_agent("demo-echo?tool=get_order,search_products", shop=True, asks=True)
    last = events(await ask(caller, build_input("all", "asked", QUESTION)))[-1]
    first, *others = (each["id"] for each in last["outcome"]["interrupts"])
    assert others
    response = await ask(caller, build_resume_input("all", "some", build_resolution(first)))
    assert refused(response) == (400, "invalid_request")
    assert others[0] in response.json()["message"]


@pytest.mark.slow
async def test_what_has_expired_is_only_dismissed(make_agent: MakeAgent) -> None:
    caller = await make_agent("demo-shop-1", shop=True, asks=True, approval_seconds=1)
    interrupt = await open_interrupt(caller, "expired")
    async with asyncio.timeout(60):
        while (await caller.get(f"/v1/approvals/{interrupt}")).json()["status"] == "pending":  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.2)
    response = await ask(caller, build_resume_input("expired", "late", build_resolution(interrupt)))
    assert refused(response) == (410, "approval_expired")
    late = {"interruptId": interrupt, "status": "cancelled"}
    told = events(await ask(caller, build_resume_input("expired", "dismissed", late)))
    async with asyncio.timeout(60):  # until the sweeper continues the run
        while "outcome" in told[-1]:
            await asyncio.sleep(0.2)
            told = events(await ask(caller, build_resume_input("expired", "dismissed", late)))
    assert told[-1]["type"] == "RUN_FINISHED"
