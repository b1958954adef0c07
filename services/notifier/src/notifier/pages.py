"""The log as endpoints are told of it, read once for all of them: pages of notices by account."""

import asyncio
from collections import defaultdict, deque

import msgspec

from contracts import events
from conversations.errors import UnreadableEvent
from conversations.event_store.log import Log, LogEntry
from conversations.event_store.owners import Owners
from runtime.logs import get_logger
from webhooks.notices import OTHERS, WANTED, Notice, notice_of

_ENTRIES = 1000
_KEPT = 64
_ERASURES_KEPT = _KEPT * _ENTRIES
"""As many as there can be behind what a kept page holds."""

_ERASED = events.tag_of(events.ConversationErased)


class NoticePage(msgspec.Struct, frozen=True):
    """What the log holds at positions in (after, end], by account."""

    after: int
    end: int
    notices: dict[str, list[Notice]]


class Pages:
    """Pages up to `end`, as far as `extend` has come; the last ones are kept for all who follow."""

    def __init__(self, log: Log, end: int) -> None:
        self.end = end
        self._log = log
        self._owners = Owners(log)
        self._kept: deque[NoticePage] = deque(maxlen=_KEPT)
        self._erased: dict[str, None] = {}
        self._reading = asyncio.Lock()
        self._logger = get_logger("notifier.pages")

    async def extend(self) -> NoticePage | None:
        """The next page of what is new; None at the end of the log. Raises DatabaseUnavailable."""
        page = await self._read(self.end)
        if page is not None:
            self._kept.append(page)
            self.end = page.end
        return page

    async def behind(self, position: int) -> NoticePage | None:
        """A page that has what comes next after `position`; None at `end`. Raises DatabaseUnavailable."""
        if position >= self.end:
            return None
        async with self._reading:  # who waits for the same page finds it kept
            for kept in reversed(self._kept):
                if kept.after <= position < kept.end:
                    return kept
            page = await self._read(position)
            if page is not None:
                self._kept.append(page)
            return page

    def lacks(self, notice: Notice) -> bool:
        """Whether its conversation has been erased since the notice was read."""
        erasure = isinstance(notice.event, events.ConversationErased)
        return not erasure and notice.conversation_id in self._erased

    async def _read(self, after: int) -> NoticePage | None:
        entries = await self._log.read(after, _ENTRIES, without=OTHERS)
        if not entries:
            return None
        self._erased.update((entry.conversation_id, None) for entry in entries if entry.topic == _ERASED)
        while len(self._erased) > _ERASURES_KEPT:
            del self._erased[next(iter(self._erased))]
        wanted = [entry for entry in entries if entry.topic in WANTED]
        owners = await self._owners.of(wanted) if wanted else {}
        notices: defaultdict[str, list[Notice]] = defaultdict(list)
        for entry in wanted:
            notice = self._notice_of(entry)
            if notice is not None and entry.conversation_id in owners:
                notices[owners[entry.conversation_id]].append(notice)
        return NoticePage(after, entries[-1].position, dict(notices))

    def _notice_of(self, entry: LogEntry) -> Notice | None:
        try:
            event = entry.event
        except UnreadableEvent as error:
            self._logger.warning("event_skipped", position=entry.position, reason=str(error))
            return None
        return notice_of(entry.position, entry.conversation_id, entry.version, event)
