"""Streams as they were received, next to the same ones replayed out of the log, and reconnects at any cut."""

import asyncio
import re
from collections import Counter
from typing import Any

import msgspec

from agentchat.contracts.values import Form
from agentchat.conversations.aggregate.canonical_stream import render_answer
from agentchat.conversations.queries.find_by_trace import load_run
from agentchat.runtime.postgres import open_pool
from tests.harness import RunningStack
from tests.system.calling import Caller, MakeAgent

THREADS = 50
AT_ONCE = 16
_FORMS: tuple[Form, ...] = ("form1", "form2", "json", "full")


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
    path, headers = "/v1/chat/stream", {**caller.headers, "X-Stream-Form": form.removeprefix("form")}
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
    return Received(form, trace_id, _strip_pings(data))


def _strip_pings(data: bytes) -> bytes:
    return data.replace(b": ping\n\n", b"")


async def thread(agents: list[Caller], number: int) -> list[Received]:
    """One of the many: one or two turns with one of the agents."""
    agent = agents[number % len(agents)]
    body: dict[str, Any] = {"prompt": "Answer as a pirate."} if number % 7 == 0 else {}
    first = await ask(agent, _FORMS[number % 4], f"Where is my order ORD-100{number % 5}?", **body)
    if number % 2 or first.thread is None:
        return [first]
    form = _FORMS[number // 3 % 4]
    return [first, await ask(agent, form, "And the other one?\u2028…", conversation_id=first.thread)]


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
            if number % 11 == 1:
                return [await ask(policies.at(here), _FORMS[number % 4], "How long may I return an order?")]
            return await thread([agent.at(here) for agent in agents], number)

    received = [each for many in await asyncio.gather(*map(one, range(THREADS))) for each in many]
    async with open_pool(stack.environment.database_url) as pool:
        found = await asyncio.gather(*(load_run(pool, each.trace_id) for each in received))
    ends: Counter[tuple[str, str]] = Counter()
    for each, known in zip(received, found, strict=True):
        assert known is not None, each
        assert render_answer(known[1], each.form, known[0]) == each.data
        ends[each.form, known[1].state] += 1
    assert ends.keys() >= {(form, state) for form in _FORMS for state in ("completed", "failed")}
    assert ends["form1", "cancelled"] + ends["form2", "cancelled"] == THREADS // 25
    assert any(b'"type":"sources"' in each.data for each in received)
    assert any(b'"type":"tool_call"' in each.data for each in received)
