"""All that a run's readers are told, once for all of them, with the place after each update. Pure.

A reader has a place in it and no more: who is slow, or comes back, costs nothing that he has not read yet.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from contracts import sse
from contracts.cursors import BEGUN, ENDED, SOURCED, Cursor, digest_of, shortened
from contracts.updates import (
    Broken,
    Finished,
    NextRound,
    Sources,
    Started,
    Text,
    ToolReturned,
    ToolStarted,
    Update,
    Waiting,
)
from gateway.runs.progress import TextProgress

EXPIRED = Broken("cursor_expired", "The reply was begun again after this cursor.", local=True)
_NOTHING = Cursor(stage=0, calls=0, length=0, digest=digest_of(""))


class ReplayEntry:
    """An update, and the place of a reader who has it and all before; none for what is `local`."""

    __slots__ = ("_data", "cursor", "update")

    def __init__(self, update: Update, cursor: Cursor | None) -> None:
        self.update = update
        self.cursor = cursor
        self._data: dict[sse.Form, bytes] = {}

    def data(self, form: sse.Form, encoder: sse.Encoder) -> bytes:
        """Its bytes in a form, encoded once for all readers."""
        if form not in self._data:
            self._data[form] = encoder.encode_marked(self.update, self.cursor)
        return self._data[form]


class ReplayBuffer:
    """It grows while the run goes on. `ended`: the last update is in it."""

    def __init__(self) -> None:
        self.entries: list[ReplayEntry] = []
        self.ended = False
        self.cursor = _NOTHING
        self._said = TextProgress()

    @property
    def text(self) -> str:
        """The reply as far as it is told."""
        return "".join(entry.update.text for entry in self.entries if isinstance(entry.update, Text))

    @property
    def is_local(self) -> bool:
        """Whether it ended for a reason of this gateway: another reader may hear more."""
        return bool(self.entries) and self.entries[-1].cursor is None

    def add(self, updates: Iterable[Update]) -> None:
        """What comes next."""
        for update in updates:
            if not isinstance(update, Waiting):
                self._add(update)

    def _add(self, update: Update) -> None:
        cursor: Cursor | None
        match update:
            case Started():
                cursor = replace(self.cursor, stage=BEGUN)
            case Sources():
                cursor = replace(self.cursor, stage=SOURCED)
            case Text():
                self._said.add(update.text)
                cursor = replace(self.cursor, length=self._said.length, digest=shortened(self._said.sha256))
            case ToolStarted():
                cursor = replace(self.cursor, calls=self.cursor.calls + 1)
            case ToolReturned() | NextRound():
                cursor = self.cursor
            case _:
                cursor = replace(self.cursor, stage=ENDED)
        if isinstance(update, Finished | Broken):
            self.ended = True
            cursor = None if isinstance(update, Broken) and update.local else cursor
        self.entries.append(ReplayEntry(update, cursor))
        self.cursor = cursor or self.cursor


class ReadPosition:
    """One reader's place: from the beginning, or from after the cursor that he came back with."""

    def __init__(self, buffer: ReplayBuffer, cursor: Cursor | None = None) -> None:
        self.ended = False
        self._buffer = buffer
        self._cursor = cursor
        self._checked = cursor is None
        self._next = 0

    def is_lost(self) -> bool:
        """Whether the cursor is of no place in this buffer, as far as that can be told by now."""
        cursor, buffer = self._cursor, self._buffer
        if cursor is None or self._checked or buffer.is_local:
            return False
        if not cursor.is_within(buffer.cursor):
            return buffer.ended
        self._checked = cursor == buffer.cursor if cursor.stage == ENDED else cursor.fits(buffer.text)
        return not self._checked

    def take(self) -> list[ReplayEntry]:
        """What has come since the last call; nothing before the buffer has come to the cursor."""
        if self.ended:
            return []
        if self.is_lost():
            self.ended = True
            return [ReplayEntry(EXPIRED, None)]
        if not self._checked and not self._buffer.ended:
            return []
        new, self._next = self._buffer.entries[self._next :], len(self._buffer.entries)
        self.ended = self._buffer.ended
        if self._cursor is None:
            return new
        return [kept for entry in new if (kept := _behind(self._cursor, entry)) is not None]


def _behind(cursor: Cursor, entry: ReplayEntry) -> ReplayEntry | None:
    """What of an entry a reader with `cursor` has not been told; None for nothing."""
    update, after = entry.update, entry.cursor
    if after is None:
        return entry
    match update:
        case Started():
            is_known = True
        case Sources():
            is_known = cursor.stage >= SOURCED or cursor.length > 0 or cursor.calls > 0
        case Text():
            is_known = after.length <= cursor.length
            if not is_known and after.length - len(update.text) < cursor.length:
                update = Text(update.text[cursor.length - after.length :])
        case ToolStarted():
            is_known = after.calls <= cursor.calls
        case ToolReturned() | NextRound():
            is_known = after.is_within(cursor)
        case _:
            is_known = cursor.stage == ENDED
    if is_known:
        return None
    after = after.joined(cursor)
    return entry if after == entry.cursor and update is entry.update else ReplayEntry(update, after)
