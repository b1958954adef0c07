"""End runs and tool calls whose message reached its maximum of deliveries. The bus copies it to DEAD."""

from agentchat.bus.work_queues import ExhaustedMessage
from agentchat.contracts import subjects, wire
from agentchat.contracts.messages import ChatRequested
from agentchat.contracts.timings import RUN_SECONDS
from agentchat.contracts.tool_messages import ToolFinished, ToolRequested
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.opening_rules import AlreadyEnded, has_made_progress
from agentchat.conversations.aggregate.run_ends import fail, save_interrupted_reply
from agentchat.conversations.errors import UnreadableEvent
from agentchat.orchestrator.run.endings import publish_end, read_streamed_text
from agentchat.orchestrator.run.run_clock import RunClock
from agentchat.orchestrator.run.run_log import get_run
from agentchat.orchestrator.services import WorkerServices
from agentchat.orchestrator.starting.unreadable_conversation import end_unreadable_run
from agentchat.runtime import logs


class StillHeld(Exception):  # noqa: N818 - a state of things
    """A worker still holds the run's lease, so the message is handled later."""


async def end_exhausted(services: WorkerServices, exhausted: ExhaustedMessage) -> None:
    """Fail the run or tool call of one message.

    Raises:
        StillHeld, DatabaseUnavailable, BusUnavailable: The message is handled again.
    """
    logs.get_logger("exhausted").error(
        "deliveries_exhausted", stream=exhausted.stream, deliveries=exhausted.deliveries
    )
    try:
        if exhausted.stream == subjects.TOOLS:
            await _fail_tool(services, wire.decode_message(ToolRequested, exhausted.data))
        else:
            await _fail_run(services, wire.decode_message(ChatRequested, exhausted.data))
    except ValueError:
        return


async def _fail_tool(services: WorkerServices, request: ToolRequested) -> None:
    await services.bus.traces.finish_tool(
        ToolFinished(
            trace_id=request.trace_id,
            call_id=request.call_id,
            output=wire.encode_tool_error("The tool could not be run; its outcome is unknown."),
            is_error=True,
            ms=0,
            leg=request.leg,
        )
    )


async def _fail_run(services: WorkerServices, request: ChatRequested) -> None:
    held = await services.leases.acquire(request.trace_id)
    if held is None:
        raise StillHeld(request.trace_id)
    try:
        run = await _end_run(services, request, RunClock(held.now))
        if run is None:
            return
        await publish_end(services, request.account_id, run)  # its worker may have died before publishing it
    finally:
        await services.leases.release(request.trace_id, held)


async def _end_run(services: WorkerServices, request: ChatRequested, clock: RunClock) -> Run | None:
    """End the request's run and return it; None if it has not started, or the sweeper restarts it."""
    try:
        conversation = await services.store.load(request.conversation_id)
    except UnreadableEvent:
        opening = await end_unreadable_run(services, request, clock.now())
        return opening.run if isinstance(opening, AlreadyEnded) else None
    run = conversation.run(request.trace_id)
    if run is None:
        return None
    if run.pending:
        return None  # it waits for an approval
    in_time = clock.seconds_since(run.requested_at) < RUN_SECONDS + run.paused_seconds
    if run.is_unpaused or (has_made_progress(run) and in_time):
        logs.get_logger("exhausted").warning("run_left_to_the_sweeper", attempt=run.attempt)
        return None  # hand-overs used up its deliveries; the sweeper's request has new ones
    now = clock.now()
    end = fail(run, "internal_error", "The request failed too often.", now)
    end = save_interrupted_reply(run, await read_streamed_text(services, run, now), end)
    return get_run(await services.store.append(conversation, end), request.trace_id)
