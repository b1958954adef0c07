"""Deletes what the read models have of a long conversation that was erased, in pieces.

It is done before they take its ConversationErased, which deletes what is left in the transaction of a page:
no transaction is long, and after a kill the rest is done again. The conversation is not listed meanwhile.
"""

from collections.abc import Sequence

from psycopg import sql

from conversations.projections import runs_table, usage_table
from conversations.projections.applying import LongErasure
from conversations.projections.projection import Projection
from runtime.postgres import Pool, connection

PIECE = 2000


async def clear(pool: Pool, erasure: LongErasure, projections: Sequence[Projection]) -> None:
    """Delete its rows from the tables of these projections. Raises DatabaseUnavailable.

    What its runs cost stays, unless its ConversationErased has it merged: then it goes with the runs' rows.
    """
    merged = erasure.merged and {usage_table.PROJECTION.name, runs_table.PROJECTION.name} <= {
        p.name for p in projections
    }
    for each in projections:
        if each.name == usage_table.PROJECTION.name:
            continue
        with_usage = merged and each.name == runs_table.PROJECTION.name
        statement = (_DELETE_WITH_USAGE if with_usage else _DELETE).format(sql.Identifier(each.name))
        while await _deleted(pool, statement, erasure.conversation_id) == PIECE:
            pass


async def _deleted(pool: Pool, statement: sql.Composed, conversation_id: str) -> int:
    async with connection(pool) as conn:
        return (await conn.execute(statement, {"id": conversation_id, "most": PIECE})).rowcount


_DELETE = sql.SQL(
    "DELETE FROM {0}"
    " WHERE ctid = ANY (ARRAY(SELECT ctid FROM {0} WHERE conversation_id = %(id)s LIMIT %(most)s))"
)
_DELETE_WITH_USAGE = sql.SQL(
    "WITH gone AS ("
    "  DELETE FROM {0}"
    "   WHERE ctid = ANY (ARRAY(SELECT ctid FROM {0} WHERE conversation_id = %(id)s LIMIT %(most)s))"
    "  RETURNING trace_id),"
    " costs AS (DELETE FROM usage USING gone WHERE usage.trace_id = gone.trace_id)"
    " SELECT FROM gone"
)
