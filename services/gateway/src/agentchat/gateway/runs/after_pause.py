"""Select the updates of a run after one of its pauses, for a reader who has those before it. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from agentchat.contracts.updates import (
    NextRound,
    ReasoningUpdate,
    RetrievedSources,
    TextUpdate,
    ToolEnded,
    ToolStarted,
    Update,
    WarningUpdate,
)
from agentchat.contracts.values import Usage
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.rounds import Call


class PausePoint(NamedTuple):
    """A pause of a run: its round, and the number of earlier pauses in that round."""

    round: int
    number: int = 0


def cut_at_client_pause(run: Run, after: PausePoint | None) -> Run | None:
    """Return the run as it waited for its client's tools, first after a pause; None if it never did."""
    waits = [
        PausePoint(each.number, approval.wait)
        for each in run.rounds
        for call in each.calls
        for approval in call.approvals
        if approval.is_client
    ]
    wait = min((each for each in waits if after is None or each > after), default=None)
    if wait is None:
        return None
    *before, last = (each for each in run.rounds if each.number <= wait.round)
    calls = tuple(_reopen(call) if call.is_client else call for call in last.calls)
    rounds = (*before, replace(last, calls=calls))
    usage = sum((each.usage for each in rounds), Usage())
    return replace(run, state="running", rounds=rounds, reply=None, usage=usage)


def _reopen(call: Call) -> Call:
    waiting = tuple(replace(each, decided=None) for each in call.approvals)
    return replace(call, output=None, is_error=False, approvals=waiting)


class AfterPause:
    """Selects the updates after a pause from a run's updates.

    `calls`: The calls that were decided in that pause, or later in that round, by their ids.
    """

    def __init__(self, run: Run, wait: PausePoint) -> None:
        had = [each for each in run.rounds if each.number <= wait.round]
        self.wait = wait
        self.calls = {
            call.call_id: call
            for call in had[-1].calls
            if any(approval.wait >= wait.number for approval in call.approvals)
        }
        self._warnings = run.warnings
        self._had = {call.call_id for each in had for call in each.calls}
        self._text = sum(len(each.text) for each in had)

    def find_approval_id(self, call_id: str) -> str | None:
        """Return the id of the first approval that was requested for one of `calls`."""
        asked = (each.id for each in self.calls[call_id].approvals if each.wait >= self.wait.number)
        return next(asked, None)

    def take_rest(self, updates: Iterable[Update]) -> list[Update]:
        """Return the part of these updates that comes after the pause."""
        return [rest for update in updates if (rest := self._take_rest(update)) is not None]

    def _is_new(self, call_id: str) -> bool:
        """Return True if the reader does not know the result of this call: its client returned no other."""
        return call_id in self.calls and not self.calls[call_id].is_client

    def _take_rest(self, update: Update) -> Update | None:
        match update:
            case TextUpdate():
                text, self._text = update.text[self._text :], max(0, self._text - len(update.text))
                return TextUpdate(text) if text else None
            case RetrievedSources():
                return None
            case WarningUpdate() if update.warning in self._warnings:
                return None
            case ToolStarted() if update.call_id in self._had:
                return None
            case ToolEnded() if update.call_id in self._had and not self._is_new(update.call_id):
                return None
            case ReasoningUpdate() if update.round <= self.wait.round:
                return None
            case NextRound() if update.number <= self.wait.round:
                return None
            case _:
                return update
