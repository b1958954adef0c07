"""Apply the rules of a conversation's title and metadata. Pure."""

import msgspec

from agentchat.contracts import events
from agentchat.contracts.messages import DescribeAnswered, DescribeConversation
from agentchat.contracts.values import MAX_PAIRS
from agentchat.conversations.aggregate.conversation import Conversation


def describe_conversation(
    conversation: Conversation, command: DescribeConversation, now: str
) -> events.ConversationDescribed | DescribeAnswered:
    """Return the event to append; or the answer, if there is nothing to append.

    A run in progress does not matter. A change without effect is an event only if the command is keyed: a
    repeated command is recognised by its event, unless 100 others were carried out since.
    """
    if not conversation.is_open_to(command):
        return DescribeAnswered(outcome="not_found")
    for trace_id, version in reversed(conversation.described):
        if trace_id == command.trace_id:
            return DescribeAnswered(outcome="described", version=version)
    metadata = _merge(conversation.metadata, command.metadata)
    if len(metadata) > MAX_PAIRS:
        return DescribeAnswered(outcome="too_many_pairs")
    title = conversation.title if command.title is msgspec.UNSET else command.title
    changes_nothing = (title, metadata) == (conversation.title, conversation.metadata)
    if changes_nothing and not command.keyed:
        return DescribeAnswered(outcome="described", version=conversation.version)
    if conversation.is_full:
        return DescribeAnswered(outcome="full")
    return events.ConversationDescribed(trace_id=command.trace_id, at=now, title=title, metadata=metadata)


def _merge(metadata: dict[str, str], changes: dict[str, str | None] | None) -> dict[str, str]:
    if changes is None:
        return {}
    return {name: value for name, value in {**metadata, **changes}.items() if value is not None}
