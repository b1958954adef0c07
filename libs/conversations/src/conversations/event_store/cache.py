"""States of the conversations used last, so that a long one is not folded anew for each turn."""

from collections import OrderedDict

from conversations.aggregate.conversation import Conversation

MAX_CONVERSATIONS = 1000
MAX_BYTES = 32 * 1024 * 1024


class Cache:
    """Bounded by their number and by the bytes of the events that they were folded from."""

    def __init__(self, max_conversations: int = MAX_CONVERSATIONS, max_bytes: int = MAX_BYTES) -> None:
        self._entries: OrderedDict[str, tuple[Conversation, int]] = OrderedDict()
        self._max_conversations = max_conversations
        self._max_bytes = max_bytes
        self._bytes = 0

    def get(self, conversation_id: str) -> Conversation | None:
        """The newest state known here, which may be behind the log."""
        entry = self._entries.get(conversation_id)
        if entry is None:
            return None
        self._entries.move_to_end(conversation_id)
        return entry[0]

    def put(self, conversation: Conversation, added: int, *, after: int) -> None:
        """Keep a state that took `added` bytes of events behind version `after`, unless one as new is known.

        One whose state at `after` was evicted meanwhile is not kept: its bytes up to there would not count.
        """
        known, size = self._entries.get(conversation.conversation_id, (None, 0))
        newest = 0 if known is None else known.version
        if conversation.version <= newest or (known is None and after > 0):
            return
        self._entries[conversation.conversation_id] = (conversation, size + added)
        self._entries.move_to_end(conversation.conversation_id)
        self._bytes += added
        self._shrink()

    def _shrink(self) -> None:
        while len(self._entries) > self._max_conversations or self._bytes > self._max_bytes:
            _, (_, size) = self._entries.popitem(last=False)
            self._bytes -= size
