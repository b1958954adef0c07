"""A run that is asked for: the checks in their order, the request onto the bus, the answer as it comes.

Order of checks: key, limits and plan, headers and agent, body, conversation (docs/design.md 6). HTTP 200 goes
out only when the user's message is saved (docs/design.md 3). What is said in which words is the door's.
"""

from contracts import ids, messages
from contracts.updates import Broken
from directory.caller import Caller
from gateway import auth
from gateway.admission import admitted
from gateway.doors.port import Ask, Asker, Encoder, Entrance
from gateway.exchange import Exchange
from gateway.idempotency import Joining, key_of
from gateway.launch import launched, wait_for
from gateway.live import LiveRun
from gateway.parts import Parts
from gateway.problems import Refusal
from gateway.stream import EventStream


async def chat(parts: Parts, exchange: Exchange, entrance: Entrance) -> None:
    """Check the request, send it off, and answer once its message is saved.

    The run is an earlier request's where this one repeats that by its Idempotency-Key. Raises Refusal,
    ClientGone.
    """
    parts.runs.check()
    api_key, agent_id = entrance.who(exchange)
    caller, agent = await auth.caller_of(exchange, parts, api_key, agent_id)
    key = await key_of(exchange, parts.pool, caller.account_id)
    repeats = key.repeats or entrance.again(exchange)
    async with admitted(exchange, parts.limiter, caller, repeats=repeats) as slot:
        door = entrance.door(parts, exchange)
        door.check(caller)
        key.check()
        async with parts.runs.receiving():
            ask = await door.read(parts, exchange, Asker(caller, agent_id, agent))
        if ask.repeats is not None and key.text is None:
            key = Joining(None, run=ask.repeats)
        request = _request(exchange.trace_id, caller, ask, door.name)
        async with launched(parts, exchange, request, key, slot, streaming=ask.streamed) as (claim, run):
            encoder = ask.encoder(exchange, claim)
            try:
                if ask.streamed:
                    await EventStream(exchange, run, lambda: encoder.encode(run.take())).serve()
                else:
                    await _answer_whole(exchange, run, encoder)
            finally:
                if run.ended:
                    parts.limiter.ended(caller.account_id, claim.trace_id)


async def _answer_whole(exchange: Exchange, run: LiveRun, encoder: Encoder) -> None:
    while not run.ended:
        await wait_for(run)
    updates = run.take()
    last = updates[-1]
    if isinstance(last, Broken):
        raise Refusal(last.code, last.message)
    await exchange.json(encoder.encode(updates))


def _request(trace_id: str, caller: Caller, ask: Ask, form: str) -> messages.ChatRequested:
    """Its times are those of its claim, once that is made."""
    return messages.ChatRequested(
        trace_id=trace_id,
        attempt=1,
        account_id=caller.account_id,
        agent_id=ask.agent_id,
        conversation_id=ask.conversation_id or (ids.new_unlisted_id() if ask.unlisted else ids.new_id()),
        new_conversation=ask.conversation_id is None,
        message_id=ids.new_id(),
        message=ask.message,
        form=form,
        requested_at=caller.now,
        deadline=caller.now,
        prompt=ask.prompt,
        history=ask.history,
        after=ask.after,
        instructions=ask.instructions,
        shown_sha256=ask.shown_sha256,
    )
