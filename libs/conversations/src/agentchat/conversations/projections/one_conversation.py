"""Read one conversation as if it were the complete log, to verify its rows in the read models."""

from collections.abc import Collection

import msgspec

from agentchat.conversations.errors import UnknownConversation
from agentchat.conversations.event_store.event_log import EntryPage, Log, LogEntry


class OneConversation:
    """The entries of one conversation, read like the log (`apply_facts.ReadableLog`)."""

    def __init__(self, log: Log, conversation_id: str, account_id: str) -> None:
        self._log = log
        self._conversation_id = conversation_id
        self._account_id = account_id
        self._entries: list[LogEntry] = []

    @classmethod
    async def find(cls, log: Log, conversation_id: str) -> "OneConversation":
        """Find the conversation. Raises UnknownConversation."""
        owners = await log.find_owners([conversation_id])
        if conversation_id not in owners:
            raise UnknownConversation(f"no such conversation: {conversation_id}")
        return cls(log, conversation_id, owners[conversation_id].account_id)

    async def read(
        self,
        after: int,
        limit: int,
        *,
        without: Collection[str] = (),  # noqa: ARG002 - a few entries more do no harm
        until: int | None = None,
    ) -> EntryPage:
        """Read up to `limit` entries after position `after`, in order."""
        last = self._entries[-1].version if self._entries else 0
        newer = await self._log.read_rows(self._conversation_id, last)
        self._entries += [msgspec.structs.replace(each, account_id=self._account_id) for each in newer]
        found = [
            each
            for each in self._entries
            if each.position > after and (until is None or each.position <= until)
        ]
        found.sort(key=lambda each: each.position)
        return EntryPage(found[:limit], is_last=len(found) <= limit)
