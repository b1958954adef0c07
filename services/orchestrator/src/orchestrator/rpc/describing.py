"""Setting the title and the metadata of a conversation, on its account's command.

It waits for no run: the worker of one under way appends behind what was set meanwhile (`run.log`).
"""

from contracts.messages import DescribeAnswered, DescribeConversation
from conversations.aggregate import description
from conversations.database import server_now
from conversations.errors import VersionConflict
from conversations.event_store import mapper
from orchestrator.parts import Parts
from orchestrator.rpc.erasing import load


async def describe(parts: Parts, command: DescribeConversation) -> DescribeAnswered:
    """Obey it once, however often it is given. Raises StoreUnavailable."""
    while True:
        conversation = await load(parts, command)
        decided = description.describe(conversation, command, await server_now(parts.pool))
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
