"""The journal of tool calls that must not run twice: a row is committed before such a call begins.

Whoever inserts the row runs the call, and nobody else. The work queue cannot promise that: an acknowledgement
can be lost with the server that took it, and the message is then delivered again.
"""

from datetime import datetime

import msgspec

from agentchat.runtime.postgres import Connection, Pool, connection

KEPT_SECONDS = 3600
"""Keep rows for this long after the end of their calls.

No redelivery comes later: a call past its deadline is not begun, and no deadline is after the end of its run.
"""


class Execution(msgspec.Struct, frozen=True):
    """The one execution of a call. If it is not `mine`, `runner` has begun it.

    It ends within `seconds_left`; negative if it is over.
    """

    mine: bool
    runner: str
    seconds_left: float


class Journal:
    """Read and write the journal for one process. Every call raises DatabaseUnavailable."""

    def __init__(self, pool: Pool, runner: str) -> None:
        self._pool = pool
        self._runner = runner

    async def begin(
        self, trace_id: str, call_id: str, *, deadline: datetime | None, seconds: float
    ) -> Execution | None:
        """Claim the execution of a call that takes at most `seconds`; None if `deadline` has passed.

        Postgres' clock decides. After DatabaseUnavailable the row may exist or not: the call must not be run.
        """
        async with connection(self._pool) as conn:
            cursor = await conn.execute(_BEGIN, [trace_id, call_id, self._runner, seconds, deadline])
            if await cursor.fetchone() is not None:
                return Execution(mine=True, runner=self._runner, seconds_left=seconds)
            return await _find(conn, trace_id, call_id)

    async def find(self, trace_id: str, call_id: str) -> Execution | None:
        """Return the execution that some process has claimed; None if the call has not begun."""
        async with connection(self._pool) as conn:
            return await _find(conn, trace_id, call_id)

    async def delete_old(self) -> None:
        """Delete the rows that no redelivery can ask for any more."""
        async with connection(self._pool) as conn:
            await conn.execute(_DELETE_OLD, [KEPT_SECONDS])


async def _find(conn: Connection, trace_id: str, call_id: str) -> Execution | None:
    row = await (await conn.execute(_FIND, [trace_id, call_id])).fetchone()
    return None if row is None else Execution(mine=False, runner=row[0], seconds_left=row[1])


_BEGIN = """
INSERT INTO tool_executions (trace_id, call_id, runner, ends_at)
SELECT %s, %s, %s, clock_timestamp() + make_interval(secs => %s)
 WHERE clock_timestamp() < coalesce(%s::timestamptz, 'infinity')
ON CONFLICT (trace_id, call_id) DO NOTHING
RETURNING 1
"""

_FIND = """
SELECT runner, extract(epoch FROM ends_at - clock_timestamp())::float8
  FROM tool_executions WHERE trace_id = %s AND call_id = %s
"""

_DELETE_OLD = "DELETE FROM tool_executions WHERE ends_at < clock_timestamp() - make_interval(secs => %s)"
