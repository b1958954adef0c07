"""AG-UI's protocol (docs/integrate/ag-ui.md): by its own clients of two versions, and on the wire.

Tool calls that need approval too.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import installed
from tests.system.calling import QUESTION, Caller, MakeAgent, make_client_agents

_CLIENTS = Path(__file__).parent / "ag_ui_clients"
BOTH_CLIENTS = pytest.mark.parametrize("package", ["@ag-ui/client", "ag-ui-before"])


def url(caller: Caller, agent: str | None = None) -> str:
    return f"{caller.base_url}/ag-ui/v1/agents/{agent or caller.headers['X-Agent-Id']}"


def bearer(caller: Caller) -> dict[str, str]:
    return {"Authorization": f"Bearer {caller.headers['X-Api-Key']}"}


def build_input(thread: str, run: str, *texts: str, **fields: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [{"id": str(i), "role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
    return {"threadId": thread, "runId": run, "messages": messages, **fields}


async def ask(caller: Caller, body: dict[str, Any]) -> httpx.Response:
    return await caller.http.post(url(caller), json=body, headers=bearer(caller))


def events(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    *told, left = response.text.split("\n\n")
    assert left == ""
    return [json.loads(event[6:]) for event in told if not event.startswith(":")]


def text_of(told: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in told if event["type"] == "TEXT_MESSAGE_CONTENT")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("package", "cancelled"),
    [("@ag-ui/client", ("cancelled", None)), ("ag-ui-before", (None, "cancelled"))],
)
async def test_its_clients_go_on_are_cancelled_and_refused(
    make_agent: MakeAgent, package: str, cancelled: tuple[str | None, str | None]
) -> None:
    caller, environ = await make_client_agents(make_agent)
    folder = await installed.node_packages(_CLIENTS)
    told = await installed.run_json(folder, "node", "agent.mjs", package, **environ)
    assert told["first"]["outcome"] == told["second"]["outcome"] == "success"
    assert told["first"]["ids"]["conversationId"] == told["second"]["ids"]["conversationId"]
    roles = [message["role"] for message in told["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert [message["calls"] for message in told["messages"]] == [0, 1, 0, 0, 0, 0]
    saved = await caller.messages(told["first"]["ids"]["conversationId"])
    texts = [message.get("content") or "" for message in told["messages"]]
    assert [each["content"] for each in saved] == [texts[0], texts[1] + texts[3], texts[4], texts[5]]
    assert (told["cancelled"]["outcome"], told["cancelled"]["error"]) == cancelled
    assert (told["failing"]["outcome"], told["failing"]["error"]) == (None, "provider_error")
    assert told["thinking"]["thought"] == ["The user asks: Hello"]
    assert told["thinking"]["types"][:2] == ["REASONING_START", "REASONING_MESSAGE_START"]
    assert told["thinking"]["again"] is None, "the client sends its reasoning messages back"
    assert told["refused"]["outcome"] is None
    assert "invalid_api_key" in told["refused"]["error"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@BOTH_CLIENTS
async def test_its_clients_run_a_broken_stream_again(make_agent: MakeAgent, package: str) -> None:
    caller = await make_agent("demo-load?deltas=40&delay_ms=25")
    folder = await installed.node_packages(_CLIENTS)
    told = await installed.run_json(folder, "node", "broken.mjs", package, **caller.environ)
    cut, ended = told["cut"], told["ended"]
    assert cut["first"]["error"] == "TypeError: terminated"
    assert cut["first"]["called"] == ["onRunFailed", "onRunFinalized"]
    assert cut["unhandled"] == ["TypeError: terminated"]
    assert (ended["first"]["error"], ended["unhandled"]) == (None, [])
    assert ended["first"]["called"] == ["onRunFinalized"]
    for broken in (cut, ended):
        part, whole = broken["first"]["last"], broken["again"]["last"]
        assert part["role"] == whole["role"] == "assistant"
        assert whole["content"].startswith(part["content"])
        assert len(part["content"]) < len(whole["content"]) == 40 * 7
        assert "400" in broken["uncleaned"]["error"]
        assert (broken["again"]["error"], broken["again"]["trace"]) == (None, broken["first"]["trace"])


async def test_a_run_is_known_by_its_id(make_agent: MakeAgent) -> None:
    caller = await make_agent("demo-load?deltas=20&delay_ms=50")
    body = build_input("known", "run-1", "hi")
    first, again = await asyncio.gather(ask(caller, body), ask(caller, body))
    later = await ask(caller, body)
    traces = {each.headers["x-trace-id"] for each in (first, again, later)}
    assert len(traces) == 1, "one run, whenever it is asked for"
    assert len({text_of(events(each)) for each in (first, again, later)}) == 1
    other = await ask(caller, build_input("known", "run-1", "ho"))
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")


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
@BOTH_CLIENTS
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
