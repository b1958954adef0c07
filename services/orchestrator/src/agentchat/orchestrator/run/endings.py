"""How a run's end is made known: the account's slot and tokens first, then the lease, then the frame."""

import asyncio
import contextlib
from collections.abc import Coroutine

from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import events, frames
from agentchat.conversations.aggregate.canonical_stream import thin_cuts
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.turn import Rejected
from agentchat.conversations.leases.leases import Lease
from agentchat.orchestrator.orchestrator_services import Parts
from agentchat.orchestrator.run.interrupted_text import already_sent
from agentchat.orchestrator.run.interruption import Interrupted
from agentchat.orchestrator.stages import EndedStage, PausedStage, Taken
from agentchat.runtime import failpoints, logs
from agentchat.runtime.postgres import DatabaseUnavailable

CANCELLED = "The run was cancelled."


async def announce_end(parts: Parts, ended: EndedStage) -> None:
    """Tell of a run that has ended in the log: the last numbered frame of its attempt, or a repeated one."""
    run = ended.run
    await _let_go(parts, ended, settle(parts, ended.request.account_id, run))
    failpoints.reach("orchestrator-before-completed")
    if ended.channel is not None:
        await ended.channel.send(end_frame(run))
    else:
        await parts.bus.traces.publish_frame(run.trace_id, end_frame(run))


async def announce_pause(parts: Parts, paused: PausedStage) -> None:
    """Tell of a run that waits in the log: nothing is held for it any more."""
    await _let_go(parts, paused, parts.limiter.release(paused.request.account_id, paused.trace_id))
    if paused.channel is not None:
        await paused.channel.send(frames.Paused(seq=0, attempt=0))
    else:
        await parts.bus.traces.publish_frame(paused.trace_id, frames.Paused(seq=0, attempt=0))


async def refuse(parts: Parts, taken: Taken, refusal: Rejected) -> None:
    """Nothing was appended, and nothing will be. Raises Interrupted where another worker may have it."""
    if not await taken.lease.wait_until_live():
        raise Interrupted("lost")
    request = taken.request
    logs.get_logger("inbox").info("request_refused", code=refusal.code)
    # First: a refused request that came again might begin, and its caller asks again meanwhile.
    await taken.delivery.ack(at_once=True)
    await _let_go(parts, taken, parts.limiter.release(request.account_id, request.trace_id))
    refused = frames.Refused(
        seq=0,
        attempt=request.attempt,
        code=refusal.code,
        message=refusal.message,
        approvals=refusal.approvals,
    )
    await parts.bus.traces.publish_frame(request.trace_id, refused)


async def heard(parts: Parts, run: Run, now: str) -> tuple[events.Delta, ...]:
    """What readers had of a round that was never recorded: the log keeps it with the end of its run.

    For who ends a run that he did not work on. () where TRACES has none of it any more.
    """
    try:
        already = already_sent(run, await parts.bus.traces.frames_of(run.trace_id))
    except BusUnavailable:
        return ()
    if run.state != "running" or not already.text:
        return ()
    number = len(run.rounds) + 1
    return (
        events.Delta(
            trace_id=run.trace_id, at=now, round=number, text=already.text, cuts=thin_cuts(already.cuts)
        ),
    )


async def publish_end(parts: Parts, account_id: str, run: Run) -> None:
    """What the worker of a run does at its end, for one that nobody works on."""
    await settle(parts, account_id, run)
    await parts.bus.traces.publish_frame(run.trace_id, end_frame(run))


async def settle(parts: Parts, account_id: str, run: Run) -> None:
    """Free the slot of a run that has ended in the log: any number of times."""
    assert run.ended_at is not None, "it has ended"
    await parts.limiter.release(account_id, run.trace_id, ended=True)


async def _let_go(parts: Parts, stage: Taken, freed: Coroutine[None, None, None]) -> None:
    """Free the account's slot and release the lease. The slot is not to be renewed again."""
    parts.register.enter(stage.released())
    if parts.leases.is_holding(stage.trace_id, stage.lease):
        await asyncio.gather(freed, release_lease(parts, stage.trace_id, stage.lease))
    else:  # nearly always: the run's last append has released it
        await freed


async def release(parts: Parts, stage: Taken) -> None:
    """Hold nothing for the request any more, so that another worker can have it at once."""
    parts.register.enter(stage.released())
    await release_lease(parts, stage.trace_id, stage.lease)


async def release_lease(parts: Parts, trace_id: str, lease: Lease) -> None:
    """Postgres not answering only means that the lease has to expire."""
    with contextlib.suppress(DatabaseUnavailable):
        await parts.leases.release(trace_id, lease)


def end_frame(run: Run) -> frames.Completed | frames.Failed:
    """The frame that tells how a run ended, unnumbered."""
    if run.state == "completed" and run.reply is not None:
        tool_calls = sum(len(each.calls) for each in run.rounds)
        return frames.Completed(
            seq=0,
            attempt=run.attempt,
            message=run.reply,
            tool_calls=tool_calls,
            usage=run.usage,
            cut=run.cut,
        )
    if run.state == "cancelled":
        return frames.Failed(seq=0, attempt=run.attempt, code="cancelled", message=CANCELLED)
    return frames.Failed(
        seq=0, attempt=run.attempt, code=run.code or "internal_error", message=run.detail or ""
    )
