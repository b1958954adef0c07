"""Setting the title and the metadata of a conversation, on its account's command.

It waits for no run: the worker of one under way appends after what was set meanwhile (`run.log`).
"""

from contracts.messages import DescribeAnswered, DescribeConversation
from conversations.aggregate import title_and_metadata
from conversations.aggregate.conversation import Conversation
from conversations.database import server_now
from conversations.errors import UnknownEvent, UnreadableEvent, VersionConflict
from conversations.event_store import mapper
from orchestrator.orchestrator_services import Parts


async def describe(parts: Parts, command: DescribeConversation) -> DescribeAnswered:
    """Obey it once, however often it is given.

    Raises DatabaseUnavailable, UnknownEvent: another worker, of a newer release, is to be asked.
    """
    while True:
        conversation = await _load(parts, command.conversation_id)
        decided = title_and_metadata.describe(conversation, command, await server_now(parts.pool))
        if isinstance(decided, DescribeAnswered):
            return decided
        try:
            # Not through the cache: a conversation that holds something unreadable is described too.
            await parts.store.append_stored(
                conversation.conversation_id, conversation.version, mapper.stored([decided])
            )
        except VersionConflict:
            continue
        return DescribeAnswered(outcome="described", version=conversation.version + 1)


async def _load(parts: Parts, conversation_id: str) -> Conversation:
    """The conversation; without those of its events that cannot be decoded. Raises as `describe`."""
    try:
        return await parts.store.load(conversation_id)
    except UnknownEvent:
        raise
    except UnreadableEvent:
        return await parts.store.load_readable(conversation_id)
