"""States of the conversations used last, so that a long one is not folded anew for each turn."""

from conversations.aggregate.conversation import Conversation
from runtime.bounded import BoundedMap

MAX_CONVERSATIONS = 1000
MAX_BYTES = 32 * 1024 * 1024


class Cache:
    """Bounded by their number and by the bytes of the events that they were folded from."""

    def __init__(self, max_conversations: int = MAX_CONVERSATIONS, max_bytes: int = MAX_BYTES) -> None:
        self._states: BoundedMap[str, Conversation] = BoundedMap(max_conversations, max_bytes)

    def get(self, conversation_id: str) -> Conversation | None:
        """The newest state known here, which may be behind the log."""
        return self._states.get(conversation_id)

    def put(self, conversation: Conversation, added: int, *, after: int) -> None:
        """Keep a state that took `added` bytes of events behind version `after`, unless one as new is known.

        One whose state at `after` was evicted meanwhile is not kept: its bytes up to there would not count.
        """
        key = conversation.conversation_id
        known = self._states.get(key)
        newest = 0 if known is None else known.version
        if conversation.version <= newest or (known is None and after > 0):
            return
        self._states.put(key, conversation, self._states.size_of(key) + added)
