"""Record each tool call that must not run twice.

The row is committed before the call starts. The process that inserts the row runs the call, and no other
process does. The work queue cannot ensure that by itself: an acknowledgement can be lost, and then the
message is delivered again.
"""

from datetime import datetime

import msgspec

from agentchat.runtime.postgres import Connection, Pool, acquire_connection

KEPT_SECONDS = 3600
"""Keep a row for this long after the latest end of its call.

No redelivery comes later: a call is not started past its deadline, and no deadline is after the end of a run.
"""


class Execution(msgspec.Struct, frozen=True):
    """The only execution of a call.

    `mine` is False if another process, `runner`, has started it. `seconds_left` is the time until its latest
    end; negative if that has passed.
    """

    mine: bool
    runner: str
    seconds_left: float


class Journal:
    """The journal as used by one process. Every method raises DatabaseUnavailable."""

    def __init__(self, pool: Pool, runner: str) -> None:
        self._pool = pool
        self._runner = runner

    async def claim(
        self, trace_id: str, call_id: str, *, deadline: datetime | None, seconds: float
    ) -> Execution | None:
        """Claim the execution of a call that takes at most `seconds`.

        Returns None if `deadline` has passed by Postgres' clock. After DatabaseUnavailable the row may exist
        or not, so the call must not be run.
        """
        async with acquire_connection(self._pool) as conn:
            cursor = await conn.execute(_CLAIM, [trace_id, call_id, self._runner, seconds, deadline])
            if await cursor.fetchone() is not None:
                return Execution(mine=True, runner=self._runner, seconds_left=seconds)
            return await _find(conn, trace_id, call_id)

    async def find(self, trace_id: str, call_id: str) -> Execution | None:
        """Return the execution that some process has claimed; None if there is none."""
        async with acquire_connection(self._pool) as conn:
            return await _find(conn, trace_id, call_id)

    async def delete_old(self) -> None:
        """Delete the rows that no redelivery can need any more."""
        async with acquire_connection(self._pool) as conn:
            await conn.execute(_DELETE_OLD, [KEPT_SECONDS])


async def _find(conn: Connection, trace_id: str, call_id: str) -> Execution | None:
    row = await (await conn.execute(_FIND, [trace_id, call_id])).fetchone()
    return None if row is None else Execution(mine=False, runner=row[0], seconds_left=row[1])


_CLAIM = """
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
