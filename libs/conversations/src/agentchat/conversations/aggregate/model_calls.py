"""Find the model call that an event reports: its model and its tokens, of which a run's cost is the sum.

Each call has the price of its model on the day of the event (`runtime.prices`): in the ledger of runs and for
the steps of a run. What-ifs and evals, which compare with a new run, price both at today's prices.
"""

import msgspec
from msgspec import UNSET, UnsetType

from agentchat.contracts import events
from agentchat.contracts.values import UnfinishedReply, Usage


class RecordedCall(msgspec.Struct, frozen=True):
    """A call of `model`, "" if unknown, that an event of the time `at` reports."""

    model: str
    usage: Usage
    at: str
    first_token_ms: int | UnsetType = UNSET


def find_model_call(event: events.Event) -> RecordedCall | None:
    """Return the model call that an event reports, also a failed, lost or broken-off one."""
    match event:
        case events.ModelReplied() | events.ReplyLost():
            return RecordedCall(event.model or "", event.usage, event.at, event.first_token_ms)
        case events.ContextCompacted():
            return RecordedCall(event.model, event.usage, event.at)
        case events.WarningRaised():
            return RecordedCall(event.failed_model or "", event.usage, event.at)
        case (
            events.RunFailed(unfinished=UnfinishedReply() as call)
            | events.RunCancelled(unfinished=UnfinishedReply() as call)
        ):
            return RecordedCall(call.model, call.usage, event.at, call.first_token_ms)
        case _:
            return None
