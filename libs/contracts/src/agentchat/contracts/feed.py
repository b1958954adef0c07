"""A stored event on its way to consumers: what EVENTS carries of it, and under which subject and headers."""

import msgspec

from agentchat.contracts import subjects


class FeedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of the log; `name` is its class name, `data` its JSON as stored."""

    position: int
    account_id: str
    conversation_id: str
    name: str
    data: bytes

    @property
    def subject(self) -> str:
        """Where it is published."""
        return subjects.events(self.account_id, self.name)

    @property
    def headers(self) -> dict[str, str]:
        """Whose it is, and its place in the log: consumers know an event by that place."""
        return {
            subjects.CONVERSATION_HEADER: self.conversation_id,
            subjects.POSITION_HEADER: str(self.position),
        }
