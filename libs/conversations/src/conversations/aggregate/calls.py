"""A tool call of a run, and what a person has said of it."""

from typing import Any

import msgspec

from contracts import events


class Approval(msgspec.Struct, frozen=True):
    """What was asked of a person about a call, and what was decided, None until it was.

    `resumed` is the first attempt that found it decided, 0 before there is one, and `resumed_at` when that
    began.
    """

    requested: events.ApprovalRequested
    decided: events.ApprovalDecided | None = None
    resumed: int = 0
    resumed_at: str = ""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call of a round, recorded at `at` (ISO 8601 UTC) by an attempt.

    `output` (a string that parses as JSON) is None until it returned. `input` is the model's own.
    """

    call_id: str
    at: str
    name: str
    input: dict[str, Any]
    output: str | None = None
    is_error: bool = False
    ms: int = 0
    attempt: int = 0
    needs_approval: bool = False
    approval: Approval | None = None

    @property
    def approval_id(self) -> str | None:
        """That of what was asked about it."""
        return None if self.approval is None else self.approval.requested.approval_id

    @property
    def is_pending(self) -> bool:
        """Whether a person was asked about it, and has not decided."""
        return self.approval is not None and self.approval.decided is None

    @property
    def may_run(self) -> bool:
        """Whether nobody needs to allow it, or somebody has."""
        return not self.needs_approval or self._approved is not None

    @property
    def is_denied(self) -> bool:
        """Whether a person has refused it."""
        decided = None if self.approval is None else self.approval.decided
        return decided is not None and decided.decision == "denied"

    @property
    def changed_input(self) -> dict[str, Any] | None:
        """What a person has put in the place of the model's input; None where that stands."""
        return None if self._approved is None else self._approved.input

    @property
    def ran_input(self) -> dict[str, Any]:
        """What the tool is run with."""
        return self.input if self.changed_input is None else self.changed_input

    @property
    def may_run_since(self) -> tuple[int, str]:
        """The first attempt that may have had it run, and since when it may have."""
        if self.needs_approval and self.approval is not None:
            return self.approval.resumed, self.approval.resumed_at
        return self.attempt, self.at

    @property
    def _approved(self) -> events.ApprovalDecided | None:
        decided = None if self.approval is None else self.approval.decided
        return decided if decided is not None and decided.decision == "approved" else None
