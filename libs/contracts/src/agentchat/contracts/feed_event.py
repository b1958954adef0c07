"""Define a stored event on its way to consumers: its content, subject and headers on EVENTS."""

import msgspec

from agentchat.contracts import subjects


class FeedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of the log. `name` is its class name, `data` its JSON as stored."""

    position: int
    account_id: str
    conversation_id: str
    name: str
    data: bytes

    @property
    def subject(self) -> str:
        """The subject on which it is published."""
        return subjects.format_event(self.account_id, self.name)

    @property
    def headers(self) -> dict[str, str]:
        """The conversation and the log position. Consumers recognise an event by its position."""
        return {
            subjects.CONVERSATION_HEADER: self.conversation_id,
            subjects.POSITION_HEADER: str(self.position),
        }
