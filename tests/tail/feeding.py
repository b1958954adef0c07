"""Events as EVENTS carries them."""

from typing import TypeVar

from contracts import events, examples, wire
from contracts.feed import FeedEvent

E = TypeVar("E", bound=events.Fact)


def example(cls: type[E]) -> E:
    """The example of a kind of event."""
    return next(each for each in examples.EVENT_EXAMPLES if isinstance(each, cls))


def fed(
    event: events.Fact,
    position: int = 1,
    *,
    account_id: str = examples.ACCOUNT,
    conversation_id: str = examples.CONVERSATION,
) -> FeedEvent:
    return FeedEvent(
        position=position,
        account_id=account_id,
        conversation_id=conversation_id,
        name=type(event).__name__,
        data=wire.encode(event),
    )
