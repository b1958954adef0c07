"""Apply the rules for a message that interrupts or steers the run under way. Pure.

The message's own worker appends MessageReceived (`opening_rules.decide_opening`). The run's worker saves the
message with whatever fits of what it appends next (`place_messages`, called by `orchestrator.run.run_log`).
"""

from collections.abc import Sequence

from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.conversations.aggregate.conversation import Conversation, Run, evolve_all


def find_joined_run(conversation: Conversation, trace_id: str) -> Run | None:
    """Find the run that the message of the request `trace_id` has joined."""
    for run in reversed(conversation.runs):
        if any(message.steers == trace_id for each in run.rounds for message in each.joined):
            return run
    return None


def find_receiver(conversation: Conversation, trace_id: str) -> Run | None:
    """Find the run, perhaps an ended one, that has received but not saved the message of the request."""
    for run in reversed(conversation.runs):
        if any(each.message.trace_id == trace_id for each in run.received):
            return run
    return None


def receive_message(
    run: Run, first: Sequence[events.Event], now: str, *, interrupts: bool
) -> events.MessageReceived:
    """Build the event by which a running run receives the first events of another request."""
    message, started = first
    assert isinstance(message, events.MessageSaved)
    assert isinstance(started, events.RunStarted)
    return events.MessageReceived(
        trace_id=run.trace_id, at=now, message=message, started=started if interrupts else None
    )


def find_interrupting(run: Run) -> events.MessageReceived | None:
    """Find the first message that the run has to end for."""
    return next((each for each in run.received if each.started is not None), None)


def place_messages(
    conversation: Conversation, trace_id: str, new: Sequence[events.Event]
) -> tuple[events.Event, ...]:
    """Return the events that save received messages, to append with `new`, which belongs to the run.

    The end of the run is followed by the message that interrupts it. At a round boundary, when all calls have
    returned or the run pauses, the messages that steer join it.
    """
    run = conversation.run(trace_id)
    if run is None or not run.received:
        return ()
    after = evolve_all(conversation, new).run(trace_id)
    now, interrupting = new[-1].at, find_interrupting(run)
    if after is None or after.state != "running":
        if interrupting is None or interrupting.started is None:
            return ()
        return replace(interrupting.message, at=now), replace(interrupting.started, at=now)
    if interrupting or not isinstance(new[-1], _BEFORE_BOUNDARIES):
        return ()
    if not after.pending and any(call.output is None for call in after.rounds[-1].calls):
        return ()
    return tuple(
        replace(each.message, trace_id=trace_id, at=now, steers=each.message.trace_id)
        for each in run.received
    )


_BEFORE_BOUNDARIES = events.ToolReturned | events.DecisionRequested
