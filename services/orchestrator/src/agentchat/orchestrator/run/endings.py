"""End runs that no worker is working on, and release slots and leases."""

import asyncio
import contextlib

from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import events, updates
from agentchat.conversations.aggregate.canonical_stream import thin_cuts
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.leases.leases import Lease
from agentchat.orchestrator.request_stages import LeasedRequest
from agentchat.orchestrator.run.channel import build_end_frame
from agentchat.orchestrator.run.interrupted_text import read_sent_output
from agentchat.orchestrator.services import WorkerServices
from agentchat.runtime.postgres import DatabaseUnavailable

CANCELLED = updates.CANCELLED.message


async def read_streamed_text(services: WorkerServices, run: Run, now: str) -> tuple[events.Delta, ...]:
    """Build the event of text that readers received of an unrecorded round, for the end of its run.

    A caller that ends another worker's run needs it. () if TRACES has none of the text any more.
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
