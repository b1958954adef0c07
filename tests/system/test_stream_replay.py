"""Streams as they were received, next to the same ones replayed out of the log, and reconnects at any cut."""

import asyncio
import os
import re
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from contracts.values import Form
from conversations.aggregate.canonical_stream import rendered
from conversations.queries.find_run import load_run
from ops.errors import StackError
from ops.main import app
from runtime.postgres import open_pool
from tests.harness import RunningStack
from tests.system.calling import Caller, MakeAgent

THREADS = 125
AT_ONCE = 32
_FORMS: tuple[Form, ...] = ("form1", "form2", "json")
_IDS = re.compile(rb"^id: (.+)\n", re.MULTILINE)
_EVENT = re.compile(rb"id: ([^\n]+)\ndata: [^\n]+\n\n")


class Received(msgspec.Struct, frozen=True):
    """What came of one request, to the byte but for comments."""

    form: Form
    trace_id: str
    data: bytes

    @property
    def thread(self) -> str | None:
        found = re.search(rb'"conversation_id":"([^"]+)"', self.data)
        return found[1].decode() if found else None


async def ask(caller: Caller, form: Form, message: str, *, cancel: bool = False, **body: Any) -> Received:
    """Ask and read all of it; a run that is to be cancelled is when its first event has come."""
    path, headers = "/v1/chat/stream", {**caller.headers, "X-Stream-Form": form[-1]}
    if form == "json":
        path, headers = "/v1/chat", caller.headers
    data = b""
    async with caller.http.stream(
        "POST", f"{caller.base_url}{path}", json={"message": message, **body}, headers=headers
    ) as response:
        trace_id = response.headers["x-trace-id"]
        async for piece in response.aiter_raw():
            if cancel and not data:
                assert (await caller.cancel(trace_id)).status_code == 202
            data += piece
    return Received(form, trace_id, _bare(data))


def _bare(data: bytes) -> bytes:
    return data.replace(b": ping\n\n", b"")


async def thread(agents: list[Caller], number: int) -> list[Received]:
    """One of the many: one or two turns with one of the agents."""
    agent = agents[number % len(agents)]
    body: dict[str, Any] = {"prompt": "Answer as a pirate."} if number % 7 == 0 else {}
    first = await ask(agent, _FORMS[number % 3], f"Where is my order ORD-100{number % 5}?", **body)
    if number % 2 or first.thread is None:
        return [first]
    form = _FORMS[number // 3 % 3]
    return [first, await ask(agent, form, "And the other one?\u2028…", conversation_id=first.thread)]


@pytest.mark.requirement("RERENDER", "JOIN")
async def test_what_was_received_is_what_the_log_renders(
    stack: RunningStack, caller: Caller, policies: Caller, make_agent: MakeAgent
) -> None:
    gateways = stack.environment.gateway_urls
    *agents, slow = await asyncio.gather(
        make_agent("demo-shop-1", shop=True),
        make_agent("demo-load?deltas=12&delay_ms=1"),
        make_agent("demo-load?deltas=12&fail=529&fail_after=4", on_interruption="fail"),
        make_agent("demo-load?fail=401"),
        make_agent('demo-load?tool=get_order&input={"order_id":1}&rounds=2&parallel=2', shop=True),
        make_agent("demo-load?deltas=400&delay_ms=20"),
    )
    places = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> list[Received]:
        async with places:
            here = gateways[number % 2]
            if number % 25 == 0:
                form = _FORMS[number // 25 % 2]
                return [await ask(slow.at(here), form, "wait", cancel=True)]
            if number % 25 == 1:
                return [await ask(policies.at(here), _FORMS[number % 3], "How long may I return an order?")]
            return await thread([agent.at(here) for agent in agents], number)

    received = [each for many in await asyncio.gather(*map(one, range(THREADS))) for each in many]
    async with open_pool(stack.environment.database_url) as pool:
        found = await asyncio.gather(*(load_run(pool, each.trace_id) for each in received))
    ends: Counter[tuple[str, str]] = Counter()
    for each, known in zip(received, found, strict=True):
        assert known is not None, each
        assert rendered(known[1], each.form, known[0]) == each.data
        ends[each.form, known[1].state] += 1
    assert ends.keys() >= {(form, state) for form in _FORMS for state in ("completed", "failed")}
    assert ends["form1", "cancelled"] + ends["form2", "cancelled"] == THREADS // 25
    assert any(b'"type":"sources"' in each.data for each in received)
    assert any(b'"type":"tool_call"' in each.data for each in received)


@pytest.mark.requirement("JOIN")
async def test_a_stream_cut_anywhere_reconnects_at_another_gateway_and_after_a_restart(
    stack: RunningStack, make_agent: MakeAgent
) -> None:
    agent = await make_agent("demo-load?deltas=25&delay_ms=20&tool=get_order&input={}", shop=True)
    here, there = (agent.at(url) for url in stack.environment.gateway_urls)
    async with here.opened("count", form=2) as response:
        trace_id = response.headers["x-trace-id"]
        events: list[bytes] = []
        rests: list[asyncio.Task[list[bytes]]] = []
        async for event in events_of(here, trace_id):
            events.append(event)
            rests.append(asyncio.create_task(read(there, trace_id, after=event)))
        posted = _bare(await response.aread())
    assert b"".join(events).count(b"\ndata: ") > 25
    assert _IDS.sub(b"", b"".join(events)) == posted
    stack.kill("gateway-1")
    for place, rest in enumerate(await asyncio.gather(*rests), 1):
        assert events[:place] + rest == events
    await stack.wait_ready("gateway-1")
    again = await asyncio.gather(*(read(here, trace_id, after=event) for event in events))
    assert again == [events[place:] for place in range(1, len(events) + 1)]
    form1 = await read(there, trace_id, form="1")
    assert await replay_trace(stack, trace_id, "--as", "form1") == (0, _IDS.sub(b"", b"".join(form1)))
    assert await replay_trace(stack, trace_id.upper()) == (0, posted)
    for unknown in ("0" * 32, "x\x1b[2J", ""):
        assert (await replay_trace(stack, unknown))[0] == 2


async def events_of(
    caller: Caller, trace_id: str, *, after: bytes | None = None, form: str | None = None
) -> AsyncIterator[bytes]:
    """GET of the events of a run, each as its bytes, from after an event."""
    headers = {"X-Api-Key": caller.headers["X-Api-Key"]}
    if form is not None:
        headers["X-Stream-Form"] = form
    if after is not None:
        headers["Last-Event-ID"] = after.partition(b"\n")[0].removeprefix(b"id: ").decode()
    waiting = b""
    address = f"{caller.base_url}/v1/chat/{trace_id}/events"
    async with caller.http.stream("GET", address, headers=headers) as response:
        assert response.status_code == 200
        async for piece in response.aiter_raw():
            waiting = _bare(waiting + piece)
            while found := _EVENT.match(waiting):
                yield found[0]
                waiting = waiting[found.end() :]
    assert not waiting


async def read(
    caller: Caller, trace_id: str, *, after: bytes | None = None, form: str | None = None
) -> list[bytes]:
    return [event async for event in events_of(caller, trace_id, after=after, form=form)]


async def replay_trace(stack: RunningStack, *arguments: str) -> tuple[int, bytes]:
    """Exit code and stdout of `agentchat replay trace`, run in this process."""
    kept = {name: None for name in os.environ if name.startswith("AGENTCHAT_")}
    environ = kept | {"AGENTCHAT_RUN_DIR": str(stack.folder.path)}
    result = await asyncio.to_thread(CliRunner().invoke, app, ["replay", "trace", *arguments], env=environ)
    if isinstance(result.exception, StackError):
        return result.exception.exit_code, result.stdout_bytes
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout_bytes
