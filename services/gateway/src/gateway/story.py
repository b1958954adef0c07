"""All that a run's readers are told, once for all of them, with the place behind each update. Pure.

A reader has a place in it and no more: who is slow, or comes back, costs nothing that he has not read yet.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from contracts import sse
from contracts.marks import BEGUN, ENDED, SOURCED, Mark, digest_of, shortened
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
from gateway.told import Said

EXPIRED = Broken("cursor_expired", "The reply was begun anew behind this cursor.", local=True)
_NOTHING = Mark(stage=0, calls=0, length=0, digest=digest_of(""))


class Entry:
    """An update, and the place of a reader who has it and all before; none for what is `local`."""

    __slots__ = ("_data", "mark", "update")

    def __init__(self, update: Update, mark: Mark | None) -> None:
        self.update = update
        self.mark = mark
        self._data: dict[sse.Form, bytes] = {}

    def data(self, form: sse.Form, encoder: sse.Encoder) -> bytes:
        """Its bytes in a form, encoded once for all readers."""
        if form not in self._data:
            self._data[form] = encoder.encode_marked(self.update, self.mark)
        return self._data[form]


class Story:
    """It grows while the run goes on. `ended`: the last update is in it."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.ended = False
        self.mark = _NOTHING
        self._said = Said()

    @property
    def text(self) -> str:
        """The reply as far as it is told."""
        return "".join(entry.update.text for entry in self.entries if isinstance(entry.update, Text))

    @property
    def is_local(self) -> bool:
        """Whether it ended for a reason of this gateway: another reader may hear more."""
        return bool(self.entries) and self.entries[-1].mark is None

    def add(self, updates: Iterable[Update]) -> None:
        """What comes next."""
        for update in updates:
            if not isinstance(update, Waiting):
                self._add(update)

    def _add(self, update: Update) -> None:
        mark: Mark | None
        match update:
            case Started():
                mark = replace(self.mark, stage=BEGUN)
            case Sources():
                mark = replace(self.mark, stage=SOURCED)
            case Text():
                self._said.add(update.text)
                mark = replace(self.mark, length=self._said.length, digest=shortened(self._said.sha256))
            case ToolStarted():
                mark = replace(self.mark, calls=self.mark.calls + 1)
            case ToolReturned() | NextRound():
                mark = self.mark
            case _:
                mark = replace(self.mark, stage=ENDED)
        if isinstance(update, Finished | Broken):
            self.ended = True
            mark = None if isinstance(update, Broken) and update.local else mark
        self.entries.append(Entry(update, mark))
        self.mark = mark or self.mark


class Bookmark:
    """One reader's place: from the beginning, or from behind the mark that he came back with."""

    def __init__(self, story: Story, mark: Mark | None = None) -> None:
        self.ended = False
        self._story = story
        self._mark = mark
        self._checked = mark is None
        self._next = 0

    def is_lost(self) -> bool:
        """Whether the mark is of no place in this story, as far as that can be told by now."""
        mark, story = self._mark, self._story
        if mark is None or self._checked or story.is_local:
            return False
        if not mark.is_within(story.mark):
            return story.ended
        self._checked = mark == story.mark if mark.stage == ENDED else mark.fits(story.text)
        return not self._checked

    def take(self) -> list[Entry]:
        """What has come since the last call; nothing before the story has come to the mark."""
        if self.ended:
            return []
        if self.is_lost():
            self.ended = True
            return [Entry(EXPIRED, None)]
        if not self._checked and not self._story.ended:
            return []
        new, self._next = self._story.entries[self._next :], len(self._story.entries)
        self.ended = self._story.ended
        if self._mark is None:
            return new
        return [kept for entry in new if (kept := _behind(self._mark, entry)) is not None]


def _behind(mark: Mark, entry: Entry) -> Entry | None:
    """What of an entry a reader with `mark` has not been told; None for nothing."""
    update, after = entry.update, entry.mark
    if after is None:
        return entry
    match update:
        case Started():
            is_known = True
        case Sources():
            is_known = mark.stage >= SOURCED or mark.length > 0 or mark.calls > 0
        case Text():
            is_known = after.length <= mark.length
            if not is_known and after.length - len(update.text) < mark.length:
                update = Text(update.text[mark.length - after.length :])
        case ToolStarted():
            is_known = after.calls <= mark.calls
        case ToolReturned() | NextRound():
            is_known = after.is_within(mark)
        case _:
            is_known = mark.stage == ENDED
    if is_known:
        return None
    after = after.joined(mark)
    return entry if after == entry.mark and update is entry.update else Entry(update, after)
