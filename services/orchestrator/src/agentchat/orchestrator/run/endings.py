"""Answer requests that get no run here, end runs of other workers, and release slots and leases."""

import asyncio
import contextlib

from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import events, frames, updates
from agentchat.conversations.aggregate.canonical_stream import get_changed_model, thin_cuts
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.turn import Rejected
from agentchat.conversations.leases.leases import Lease
from agentchat.orchestrator.request_stages import LeasedRequest
from agentchat.orchestrator.run.interrupted_text import read_sent_output
from agentchat.orchestrator.run.interruption import Interrupted
from agentchat.orchestrator.services import WorkerServices
from agentchat.runtime import logs
from agentchat.runtime.postgres import DatabaseUnavailable

CANCELLED = updates.CANCELLED.message


async def refuse(services: WorkerServices, leased: LeasedRequest, refusal: Rejected) -> None:
    """Refuse a request, of which nothing was or will be appended.

    Raises:
        Interrupted: Another worker may have the request.
    """
    if not await leased.lease.wait_until_live():
        raise Interrupted("lost")
    request = leased.request
    logs.get_logger("inbox").info("request_refused", code=refusal.code)
    # First, since a redelivered request might start after its caller was refused.
    await leased.delivery.ack(at_once=True)
    await release_slot_and_lease(services, leased)
    refused = frames.Refused(
        seq=0,
        attempt=request.attempt,
        code=refusal.code,
        message=refusal.message,
        approvals=refusal.approvals,
        running_trace_id=refusal.running_trace_id,
    )
    await services.bus.traces.publish_frame(request.trace_id, refused)


async def announce_joined(services: WorkerServices, leased: LeasedRequest, trace_id: str) -> None:
    """Publish that the request's message has joined the run `trace_id`, and release all held for it."""
    await release_slot_and_lease(services, leased)
    await publish_steered(services, leased, trace_id)


async def publish_steered(services: WorkerServices, leased: LeasedRequest, trace_id: str) -> None:
    """Publish that the reply of the run `trace_id` answers the request."""
    steered = frames.Steered(seq=0, attempt=leased.request.attempt, running_trace_id=trace_id)
    await services.bus.traces.publish_frame(leased.trace_id, steered)


async def read_streamed_text(services: WorkerServices, run: Run, now: str) -> tuple[events.Delta, ...]:
    """Build the event of text that readers received of an unrecorded round, for the end of its run.

    For a caller that ends a run of another worker. () if TRACES has none of the text any more.
    """
    try:
        already = read_sent_output(run, await services.bus.traces.read_frames(run.trace_id))
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


async def publish_end(services: WorkerServices, account_id: str, run: Run) -> None:
    """Release the slot and publish the end of a run that no worker is working on. Safe to repeat."""
    assert run.ended_at is not None, "it has ended"
    await services.limiter.release(account_id, run.trace_id, ended=True)
    await services.bus.traces.publish_frame(run.trace_id, build_end_frame(run))


async def release_slot_and_lease(
    services: WorkerServices, stage: LeasedRequest, *, ended: bool = False
) -> None:
    """Release the account's slot and the lease; `ended`: of a run that has ended in the log.

    The slot is not renewed again.
    """
    services.register.enter(stage.to_released())
    freed = services.limiter.release(stage.request.account_id, stage.trace_id, ended=ended)
    if services.leases.is_holding(stage.trace_id, stage.lease):
        await asyncio.gather(freed, release_lease(services, stage.trace_id, stage.lease))
    else:  # usual case: the run's last append has released it
        await freed


async def release_lease(services: WorkerServices, trace_id: str, lease: Lease) -> None:
    """Release the lease. Without Postgres, it expires."""
    with contextlib.suppress(DatabaseUnavailable):
        await services.leases.release(trace_id, lease)


def build_end_frame(run: Run) -> frames.Completed | frames.Failed:
    """Build the frame that tells how a run ended, unnumbered."""
    if run.state == "completed" and run.reply is not None:
        tool_calls = sum(len(each.calls) for each in run.rounds)
        return frames.Completed(
            seq=0,
            attempt=run.attempt,
            message=run.reply,
            tool_calls=tool_calls,
            is_sourced=run.sources is not None,
            usage=run.usage,
            cut=run.cut,
            model=get_changed_model(run),
        )
    if run.state == "cancelled":
        end = updates.REPLACED if run.code == updates.REPLACED.code else updates.CANCELLED
        return frames.Failed(seq=0, attempt=run.attempt, code=end.code, message=end.message)
    return frames.Failed(
        seq=0, attempt=run.attempt, code=run.code or "internal_error", message=run.detail or ""
    )
