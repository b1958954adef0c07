"""Keep the updates of a run from its beginning, for any number of readers and their cursors. Pure."""

from collections.abc import Iterable

from msgspec.structs import replace

from agentchat.contracts import sse_encoder, updates
from agentchat.contracts.stream_cursors import BEGUN, ENDED, SOURCED, Cursor, compute_digest, shorten_digest
from agentchat.gateway.runs.sent_updates import TextProgress

EXPIRED = updates.Broken("cursor_expired", "The reply was begun again after this cursor.", local=True)
_NOTHING = Cursor(stage=0, calls=0, length=0, digest=compute_digest(""))


class MarkedUpdate:
    """An update, and the cursor of a reader who has it and all before; None if it is `local`."""

    __slots__ = ("_data", "cursor", "update")

    def __init__(self, update: updates.Update, cursor: Cursor | None) -> None:
        self.update = update
        self.cursor = cursor
        self._data: dict[sse_encoder.Form, bytes] = {}

    def encode(self, form: sse_encoder.Form, encoder: sse_encoder.Encoder) -> bytes:
        """Encode the update in a form, once for all readers."""
        if form not in self._data:
            self._data[form] = encoder.encode_marked(self.update, self.cursor)
        return self._data[form]


class UpdateHistory:
    """The updates of a run from its beginning, for any number of readers, also late and slow ones.

    With `has_outputs` cursors count tool results, warnings and reasoning too.
    """

    def __init__(self, *, has_outputs: bool = False) -> None:
        self._has_outputs = has_outputs
        self.ended = False
        self.entries: list[MarkedUpdate] = []
        self.cursor = _NOTHING
        self._progress, self._reasoning = TextProgress(), TextProgress()

    @property
    def text(self) -> str:
        """The reply so far."""
        return "".join(
            entry.update.text for entry in self.entries if isinstance(entry.update, updates.TextUpdate)
        )

    @property
    def reasoning(self) -> str:
        """The reasoning so far."""
        return "".join(
            entry.update.text for entry in self.entries if isinstance(entry.update, updates.ReasoningUpdate)
        )

    @property
    def is_local(self) -> bool:
        """True if it ended for a reason of this gateway: another reader may get more."""
        return bool(self.entries) and self.entries[-1].cursor is None

    def add(self, new: Iterable[updates.Update]) -> None:
        """Add updates."""
        for update in new:
            self.ended = isinstance(update, updates.Finished | updates.Broken)
            self.entries.append(MarkedUpdate(update, self._place_after(update)))

    def _place_after(self, update: updates.Update) -> Cursor | None:
        match update:
            case updates.Started():
                self.cursor = replace(self.cursor, stage=BEGUN)
            case updates.RetrievedSources():
                self.cursor = replace(self.cursor, stage=SOURCED)
            case updates.TextUpdate():
                self._progress.add(update.text)
                length, digest = self._progress.length, shorten_digest(self._progress.sha256)
                self.cursor = replace(self.cursor, length=length, digest=digest)
            case updates.ReasoningUpdate() if self._has_outputs:
                self._reasoning.add(update.text)
                length, digest = self._reasoning.length, shorten_digest(self._reasoning.sha256)
                self.cursor = replace(self.cursor, reasoning=length, reasoning_digest=digest)
            case updates.ToolStarted():
                self.cursor = replace(self.cursor, calls=self.cursor.calls + 1)
            case updates.ToolEnded() | updates.WarningUpdate():
                self.cursor = replace(self.cursor, extras=self.cursor.extras + self._has_outputs)
            case updates.NextRound() | updates.ToolProgressed() | updates.ReasoningUpdate():
                pass
            case updates.Broken() if update.local:
                return None
            case _:
                self.cursor = replace(self.cursor, stage=ENDED)
        return self.cursor


class ReadPosition:
    """One reader's position: at the beginning, or after the cursor that it came back with."""

    def __init__(self, history: UpdateHistory, cursor: Cursor | None = None) -> None:
        self._history = history
        self._cursor = cursor
        self._checked = cursor is None
        self._has_same_reasoning = True
        self._is_lost = False
        self._next = 0

    @property
    def is_lost(self) -> bool:
        """True if the cursor is known not to belong to this history."""
        cursor, history = self._cursor, self._history
        if cursor is None or self._checked or self._is_lost or history.is_local:
            return self._is_lost
        if not cursor.is_within(history.cursor):
            self._is_lost = history.ended
        else:
            self._checked = (
                cursor == history.cursor if cursor.stage == ENDED else cursor.matches(history.text)
            )
            self._is_lost = not self._checked
            self._has_same_reasoning = cursor.matches_reasoning(history.reasoning)
        return self._is_lost

    @property
    def first(self) -> updates.Update | None:
        """The run's first update, whether it was taken or not; None before there is one."""
        return self._history.entries[0].update if self._history.entries else None

    @property
    def ended(self) -> bool:
        """True if what can be taken now is the last."""
        return self._history.ended or self.is_lost

    def take(self) -> list[updates.Update]:
        """Return the new updates."""
        return [entry.update for entry in self.take_marked()]

    def take_marked(self) -> list[MarkedUpdate]:
        """Return the new updates with their cursors; none before the run has reached the reader's cursor."""
        if self.is_lost:
            if self._checked:
                return []
            self._checked = True
            return [MarkedUpdate(EXPIRED, None)]
        if not self._checked and not self._history.ended:
            return []
        new = self._history.entries[self._next :]
        self._next += len(new)
        if self._cursor is None:
            return new
        known = self._cursor if self._has_same_reasoning else None
        return [rest for entry in new if (rest := _cut_at_cursor(self._cursor, entry, known)) is not None]


def _cut_at_cursor(cursor: Cursor, entry: MarkedUpdate, reasoning: Cursor | None) -> MarkedUpdate | None:
    """Return the part of an update that a reader with `cursor` lacks; None for nothing.

    `reasoning` is the same cursor; None if the reader has other reasoning, by another worker: then it gets no
    more of this round's.
    """
    update, after = entry.update, entry.cursor
    if after is None:
        return entry
    match update:
        case updates.Started():
            is_known = True
        case updates.RetrievedSources():
            is_known = cursor.stage >= SOURCED or cursor.length > 0 or cursor.calls > 0
        case updates.TextUpdate():
            is_known = after.length <= cursor.length
            if not is_known and after.length - len(update.text) < cursor.length:
                update = updates.TextUpdate(update.text[cursor.length - after.length :])
        case updates.ReasoningUpdate() if reasoning is None:
            is_known = after.length <= cursor.length and after.calls <= cursor.calls
        case updates.ReasoningUpdate():
            is_known = after.reasoning <= cursor.reasoning
            if not is_known and after.reasoning - len(update.text) < cursor.reasoning:
                rest = update.text[cursor.reasoning - after.reasoning :]
                update = updates.ReasoningUpdate(rest, update.round)
        case updates.ToolStarted():
            is_known = after.calls <= cursor.calls
        case updates.ToolEnded() | updates.WarningUpdate():
            is_known = after.extras <= cursor.extras
        case updates.ToolProgressed():
            is_known = after.is_within(cursor) and after != cursor
        case updates.NextRound():
            is_known = after.is_within(cursor)
        case _:
            is_known = cursor.stage == ENDED
    if is_known:
        return None
    after = after.merge(cursor)
    return entry if after == entry.cursor and update is entry.update else MarkedUpdate(update, after)
