"""A request that this worker has taken, until its run is open or it is clear that there will be none."""

from conversations.aggregate.turn import MustWait, Rejected
from conversations.errors import UnreadableEvent
from orchestrator.opening.decide_request import decide
from orchestrator.opening.run_slots import NoSlot
from orchestrator.opening.unreadable import end_unreadable
from orchestrator.opening.waiting import leave_line, wait_for_turn
from orchestrator.orchestrator_services import Parts
from orchestrator.stages import EndedStage, Opened, PausedStage, Taken


async def open_run(parts: Parts, taken: Taken) -> Opened | EndedStage | PausedStage | Rejected:
    """The first append, after a wait for the request's turn where the conversation is busy.

    Raises Interrupted, NoSlotYet, VersionConflict, WaiterLost, DatabaseUnavailable,
    UnreadableEvent.
    """
    has_waited = taken.delivery.attempt > 1 or taken.request.attempt > 1  # perhaps, at another worker
    try:
        if isinstance(taken.found.conversation, UnreadableEvent):
            raise taken.found.conversation
        outcome = await decide(
            parts, taken, taken.found.conversation, first_in_line=taken.found.first_in_line
        )
        if isinstance(outcome, MustWait | NoSlot):
            has_waited = True
            outcome = await wait_for_turn(parts, taken, outcome)
    except UnreadableEvent as error:
        outcome = await end_unreadable(parts, taken, error)
    if has_waited:
        await leave_line(parts, taken)
    return outcome
