"""Both chat endpoints: the checks in their order, the request onto the bus, the answer as it comes.

Order of checks: key, limits and plan, headers and agent, body, conversation (DESIGN section 6). HTTP 200 goes
out only when the user's message is saved (DESIGN section 3).
"""

import contextlib
from collections.abc import AsyncIterator, Callable

from contracts import http, ids, messages, sse, wire
from contracts.updates import Broken, Finished
from contracts.values import Form
from conversations.idempotency import Claim
from directory.caller import Caller
from gateway import auth, body
from gateway.admission import admitted
from gateway.exchange import Exchange
from gateway.forms import check_plan, default_form, form_of
from gateway.idempotency import key_of
from gateway.launch import launched, wait_for
from gateway.live import LiveRun
from gateway.parts import Parts
from gateway.problems import Refusal
from gateway.stream import EventStream


async def stream(parts: Parts, exchange: Exchange) -> None:
    """POST /v1/chat/stream."""

    def chosen() -> sse.Form:
        return form_of(exchange) or default_form(parts.stream_form)

    async with _accepted(parts, exchange, chosen) as (claim, run):
        encoder = sse.Encoder(chosen(), claim.conversation_id, claim.trace_id)
        await EventStream(exchange, run, lambda: encoder.encode(run.take())).serve()


async def reply(parts: Parts, exchange: Exchange) -> None:
    """POST /v1/chat."""
    async with _accepted(parts, exchange, lambda: "json") as (claim, run):
        while not run.ended:
            await wait_for(run)
        last = run.take()[-1]
        if isinstance(last, Broken):
            raise Refusal(last.code, last.message)
        assert isinstance(last, Finished)
        answer = http.ChatReply(
            conversation_id=claim.conversation_id,
            message=last.message,
            tool_calls=last.tool_calls or None,
        )
        await exchange.json(wire.encode(answer))


@contextlib.asynccontextmanager
async def _accepted(
    parts: Parts, exchange: Exchange, chosen: Callable[[], Form]
) -> AsyncIterator[tuple[Claim, LiveRun]]:
    """Check the request, send it off and wait until its message is saved; the run is followed in the block.

    The run is an earlier request's where this one repeats that by its Idempotency-Key.

    `chosen` gives the form of the answer; it may raise Refusal, in the order of the checks. Raises Refusal,
    ClientGone.
    """
    parts.runs.check()
    agent_id = auth.agent_id_of(exchange)
    caller, found = await auth.caller_of(exchange, parts, agent_id)
    key = await key_of(exchange, parts.pool, caller.account_id)
    async with admitted(exchange, parts.limiter, caller, repeats=key.repeats) as slot:
        form = chosen()
        check_plan(form, caller)
        key.check()
        agent = auth.check_agent(agent_id, found)
        async with parts.runs.receiving():
            content = await body.read(exchange, caller.plan.max_message_bytes)
        request = _request(exchange.trace_id, caller, agent.agent_id, content, form)
        async with launched(parts, exchange, request, key, slot) as (claim, run):
            try:
                yield claim, run
            finally:
                if run.ended:
                    parts.limiter.ended(caller.account_id, claim.trace_id)


def _request(
    trace_id: str, caller: Caller, agent_id: str, content: http.ChatBody, form: Form
) -> messages.ChatRequested:
    """Its times are those of its claim, once that is made. Raises Refusal for an id that cannot be one."""
    conversation_id = (content.conversation_id or "").lower()
    is_new = content.conversation_id is None
    if not is_new and not ids.is_uuid(conversation_id):
        raise Refusal("conversation_not_found")
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
        deadline=caller.now,
        prompt=content.prompt,
    )
