"""Find a tool as a run's model was offered it, from the log."""

from typing import LiteralString

from agentchat.contracts import events
from agentchat.contracts.values import ToolSpec
from agentchat.conversations.event_store import mapper
from agentchat.runtime.postgres import Pool, acquire_connection


async def find_tool(pool: Pool, conversation_id: str, tools_sha256: str, name: str) -> ToolSpec | None:
    """Find the tool that the model saw as `name`, None if the log has no such list of tools.

    Raises DatabaseUnavailable, UnreadableEvent.
    """
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(_FIND, [conversation_id, tools_sha256])).fetchone()
    reply = None if row is None else mapper.decode_stored(*row)
    offered = reply.offered_tools if isinstance(reply, events.ModelReplied) else None
    return next((spec for spec in offered or () if spec.name == name), None)


_FIND: LiteralString = """
SELECT topic, state FROM readable_conversation_events
 WHERE originator_id = %s AND topic = 'model_replied.v1' AND position('"offered_tools":['::bytea IN state) > 0
   AND event_field(state, 'tools_sha256') = %s AND event_field(state, 'offered_tools') IS NOT NULL
 ORDER BY originator_version DESC LIMIT 1
"""
