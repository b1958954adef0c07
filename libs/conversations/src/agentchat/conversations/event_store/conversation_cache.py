"""Cache the states of the conversations used last."""

from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.runtime.bounded_map import BoundedMap

MAX_CONVERSATIONS = 1000
MAX_BYTES = 96 * 1024 * 1024


class Cache:
    """A cache bounded by the number of states and the bytes of their events."""

    def __init__(self, max_conversations: int = MAX_CONVERSATIONS, max_bytes: int = MAX_BYTES) -> None:
        self._states: BoundedMap[str, Conversation] = BoundedMap(max_conversations, max_bytes)
        self.edition = 0
        """Another after each `clear`."""

    def get(self, conversation_id: str) -> Conversation | None:
        """Return the newest state known here, which may be behind the log."""
        return self._states.get(conversation_id)

    def put(self, conversation: Conversation) -> None:
        """Keep a state, unless one as new is known."""
        key = conversation.conversation_id
        known = self._states.get(key)
        if known is None or conversation.version > known.version:
            self._states.put(key, conversation, conversation.stored_bytes)

    def clear(self) -> None:
        """Forget all states: they may not be in the log any more."""
        self._states.clear()
        self.edition += 1
