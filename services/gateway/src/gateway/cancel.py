"""POST /v1/chat/{trace_id}/cancel: the end of a run, asked for at whichever gateway."""

from contracts import http, wire
from contracts.messages import CancelRequested
from gateway import strict
from gateway.admission import reader_of
from gateway.exchange import Exchange
from gateway.owned import run_of
from gateway.parts import Parts
from gateway.problems import Refusal


async def cancel(parts: Parts, exchange: Exchange, trace_id: str) -> None:
    """202 for a run under way or a request in line, 404 for what is not the account's, 409 for what ended.

    The worker that has the run ends it, and the log says how: one that was about to end may do so yet.
    """
    caller = await reader_of(parts, exchange)
    await strict.discard(exchange)
    found = await run_of(parts, caller, trace_id)
    has_begun = found.begun_at is not None
    if has_begun and not await parts.log.is_under_way(found.conversation_id, trace_id):
        raise Refusal("run_ended")
    await parts.bus.cancel(CancelRequested(trace_id=trace_id, account_id=caller.account_id))
    await exchange.json(wire.encode(http.Cancelling(trace_id=trace_id)), 202)
