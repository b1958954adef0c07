"""Whose conversation each is: only its first event says so, and followers need it for all of them."""

from collections.abc import Collection, Sequence

from contracts import events
from conversations.errors import UnreadableEvent
from conversations.event_store.log import Log, LogEntry
from runtime.bounded import BoundedMap

MAX_KNOWN = 20_000
NAMING = frozenset({"conversation_started.v1", "conversation_erased.v1"})
"""The tags of the events that say it."""


class Owners:
    """The accounts of the conversations seen last, looked up in the log where they are not known."""

    def __init__(self, log: Log, max_known: int = MAX_KNOWN) -> None:
        self._log = log
        self._accounts: BoundedMap[str, str] = BoundedMap(max_known)

    async def of(self, entries: Sequence[LogEntry]) -> dict[str, str]:
        """The account of each conversation in `entries`; one without a readable beginning is left out."""
        for entry in entries:
            if entry.topic in NAMING:
                self._learn(entry)
        return await self.of_conversations({entry.conversation_id for entry in entries})

    async def of_conversations(self, conversation_ids: Collection[str]) -> dict[str, str]:
        """The same for conversations."""
        wanted = set(conversation_ids)
        found = {each: account for each in wanted if (account := self._accounts.get(each)) is not None}
        if unknown := wanted - found.keys():
            for conversation_id, account in (await self._log.accounts_of(unknown)).items():
                found[conversation_id] = account
                self._accounts.put(conversation_id, account)
        return found

    def _learn(self, entry: LogEntry) -> None:
        try:
            event = entry.event
        except UnreadableEvent:
            return
        if isinstance(event, events.ConversationStarted | events.ConversationErased):
            self._accounts.put(entry.conversation_id, event.account_id)
