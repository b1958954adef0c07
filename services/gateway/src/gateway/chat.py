"""Both chat endpoints: the checks in their order, the request onto the bus, the answer as it comes.

Order of checks: key, limits and plan, headers and agent, body, conversation (DESIGN section 6). HTTP 200 goes
out only when the user's message is saved (DESIGN section 3).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from bus import Bus
from contracts import http, ids, messages, wire
from contracts.values import Form
from directory.caller import Caller
from gateway import auth, body, sse
from gateway.admission import Slot, admitted
from gateway.exchange import ClientGone, Exchange
from gateway.live import LiveRun
from gateway.parts import Parts
from gateway.problems import Refusal, invalid
from gateway.stream import EventStream
from gateway.updates import Broken, Finished

ACCEPT_SECONDS = 15.0
TURN_SECONDS = 35.0  # 30 s in line, and some for the acceptance
_FORM_HEADER = b"x-stream-form"
_FORMS: dict[bytes, sse.Form] = {b"1": "form1", b"2": "form2"}


async def stream(parts: Parts, exchange: Exchange) -> None:
    """POST /v1/chat/stream."""
    asked = exchange.header(_FORM_HEADER) or [b"%d" % parts.stream_form]
    chosen = _FORMS.get(asked[0]) if len(asked) == 1 else None
    async with _accepted(parts, exchange, chosen) as (request, run):
        encoder = sse.Encoder(chosen or "form1", request.conversation_id, exchange.trace_id)
        await EventStream(exchange, run, encoder).serve()


async def reply(parts: Parts, exchange: Exchange) -> None:
    """POST /v1/chat."""
    async with _accepted(parts, exchange, "json") as (request, run):
        while not run.ended:
            await _wait(run)
        last = run.take()[-1]
        if isinstance(last, Broken):
            raise Refusal(last.code, last.message)
        assert isinstance(last, Finished)
        answer = http.ChatReply(
            conversation_id=request.conversation_id,
            message=last.message,
            tool_calls=last.tool_calls or None,
        )
        await exchange.json(wire.encode(answer))


@contextlib.asynccontextmanager
async def _accepted(
    parts: Parts, exchange: Exchange, form: Form | None
) -> AsyncIterator[tuple[messages.ChatRequested, LiveRun]]:
    """Check the request, send it off and wait until its message is saved; the run is followed in the block.

    `form` is None where the request asks for one that does not exist. Raises Refusal, ClientGone.
    """
    if parts.runs.stopping:
        raise Refusal("server_shutdown")
    agent_id = auth.agent_id_of(exchange)
    caller, found = await auth.caller_of(exchange, parts.pool, parts.last_used, agent_id)
    async with admitted(exchange, parts.limiter, caller) as slot:
        if form == "form2" and not caller.plan.form2_streaming:
            raise Refusal("plan_upgrade_required", f"The plan {caller.plan.name} has no streaming in form 2.")
        if form is None:
            raise invalid("X-Stream-Form", "This header must be 1 or 2, or be left out.")
        agent = auth.check_agent(agent_id, found)
        content = await body.read(exchange, caller.plan.max_message_bytes)
        request = _request(exchange.trace_id, caller, agent.agent_id, content, form)
        streaming = form != "json"
        async with parts.runs.follow(exchange.trace_id, request.conversation_id, streaming=streaming) as run:
            watcher = asyncio.create_task(_watch(exchange, run))
            try:
                await _launch(parts.bus, request, run, slot)
                yield request, run
            finally:
                watcher.cancel()
                if run.ended:
                    parts.limiter.ended(caller.account_id, exchange.trace_id)


def _request(
    trace_id: str, caller: Caller, agent_id: str, content: http.ChatBody, form: Form
) -> messages.ChatRequested:
    """Raises Refusal for a conversation id that cannot be one."""
    conversation_id = (content.conversation_id or "").lower()
    is_new = content.conversation_id is None
    if not is_new and not ids.is_uuid(conversation_id):
        raise Refusal("conversation_not_found")
    deadline = datetime.fromisoformat(caller.now) + timedelta(seconds=ACCEPT_SECONDS)
    return messages.ChatRequested(
        trace_id=trace_id,
        attempt=1,
        account_id=caller.account_id,
        agent_id=agent_id,
        conversation_id=ids.new_id() if is_new else conversation_id,
        new_conversation=is_new,
        message_id=ids.new_id(),
        message=content.message,
        form=form,
        requested_at=caller.now,
        deadline=deadline.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        prompt=content.prompt,
    )


async def _launch(bus: Bus, request: messages.ChatRequested, run: LiveRun, slot: Slot) -> None:
    """Publish the request and wait for the acceptance. Raises Refusal, ClientGone, BusUnavailable.

    Once it is published a run may begin, whoever still waits for it: only a refusal gives the slot back.
    """
    await bus.request_chat(request)
    slot.handed_over = True
    try:
        await _acceptance(run)
    except Refusal:
        slot.handed_over = False
        raise


async def _acceptance(run: LiveRun) -> None:
    in_line = False
    try:
        async with asyncio.timeout(ACCEPT_SECONDS) as patience:
            while not run.started:
                if run.ended:
                    raise _refusal(run)
                if run.waiting and not in_line:
                    in_line = True
                    patience.reschedule(asyncio.get_running_loop().time() + TURN_SECONDS)
                await _wait(run)
    except TimeoutError:
        raise Refusal("overloaded", "No worker has taken the request in time.") from None


def _refusal(run: LiveRun) -> Refusal:
    last = run.take()[-1]
    assert isinstance(last, Broken)
    # One wording for what does not exist and for what is somebody else's.
    return Refusal(last.code, None if last.code == "conversation_not_found" else last.message)


async def _wait(run: LiveRun) -> None:
    await run.wait()
    if run.gone:
        raise ClientGone


async def _watch(exchange: Exchange, run: LiveRun) -> None:
    """Notice that the client has gone."""
    await exchange.disconnected()
    run.gone = True
    run.nudge()
