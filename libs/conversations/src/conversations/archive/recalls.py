"""A conversation that is in the archive is requested back, by whoever wants to read or continue it.

The projector that leads has the files: it inserts the rows again where they were (`archive_work`). Followers
are past these positions, so nobody receives an event a second time.
"""

import asyncio

from conversations.errors import NotRecalled
from runtime.postgres import DatabaseUnavailable, Pool, connection

RECALL_SECONDS = 5.0
_LOOK_SECONDS = 0.03


async def brought_back(pool: Pool, conversation_id: str) -> bool:
    """Whether a conversation that was not found in the log is there now; False where it is not archived.

    Raises NotRecalled where it cannot be read from its file; DatabaseUnavailable, also where no projector has
    brought it back in RECALL_SECONDS.
    """
    if (in_log := await _state_of(pool, conversation_id)) is None:
        return False
    end = asyncio.get_running_loop().time() + RECALL_SECONDS
    if in_log is False:
        async with connection(pool) as conn:
            await conn.execute(_REQUEST, [conversation_id])
    while in_log is False:
        if asyncio.get_running_loop().time() > end:
            raise DatabaseUnavailable(f"conversation {conversation_id} was not brought back from the archive")
        await asyncio.sleep(_LOOK_SECONDS)
        async with connection(pool) as conn:
            row = await (await conn.execute(_PROGRESS, [conversation_id, conversation_id])).fetchone()
        assert row is not None, "SELECT without FROM gives one row"
        in_log, is_requested = row
        if in_log is False and not is_requested:
            raise NotRecalled(conversation_id)
    return True


async def brought_back_by_trace(pool: Pool, trace_id: str, account_id: str | None) -> bool:
    """The same for the conversation of a run, if it is this account's, where one is given."""
    async with connection(pool) as conn:
        row = await (await conn.execute(_BY_TRACE, [trace_id, account_id, account_id])).fetchone()
    return row is not None and await brought_back(pool, row[0])


async def archived_thread(pool: Pool, conversation_id: str) -> tuple[str, int] | None:
    """The account and the version of one that is archived. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        return await (await conn.execute(_THREAD, [conversation_id])).fetchone()


async def has_archive(pool: Pool) -> bool:
    """Whether anything was archived: the log alone is not all there is. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        row = await (await conn.execute("SELECT EXISTS (SELECT FROM archive_files)")).fetchone()
    return row == (True,)


async def _state_of(pool: Pool, conversation_id: str) -> bool | None:
    """Whether the rows of an archived conversation are in the log too; None for one that is not archived."""
    async with connection(pool) as conn:
        row = await (await conn.execute(_STATE, [conversation_id])).fetchone()
    return None if row is None else row[0]


_STATE = "SELECT in_log FROM archived_conversations WHERE conversation_id = %s"

_THREAD = "SELECT account_id, version FROM archived_conversations WHERE conversation_id = %s"

_REQUEST = "INSERT INTO archive_recalls (conversation_id) VALUES (%s) ON CONFLICT DO NOTHING"

_PROGRESS = """
SELECT (SELECT in_log FROM archived_conversations WHERE conversation_id = %s),
       EXISTS (SELECT FROM archive_recalls WHERE conversation_id = %s)
"""

_BY_TRACE = """
SELECT conversation_id FROM runs JOIN archived_conversations AS archived USING (conversation_id)
 WHERE trace_id = %s AND NOT in_log AND (%s::text IS NULL OR archived.account_id = %s)
"""
