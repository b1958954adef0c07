"""Shards of accounts: how far each read model is, shard by shard, so that several projectors share them.

An account belongs to a shard by the hash of its id, whatever the number of projectors: who works on which
shard is `shard_leases`. Each read model has a position in the log for each shard, in `cursors`. A transaction
that applies a page also moves the cursors that it went on from, and is refused where one is not there any
more: so an event is applied once, whoever believes to hold the shard.

Release 0.9.0 has one position a read model, in `projection_positions`, and one projector that works while it
holds LEADER_LOCK. Projectors of this release hold it shared. The first of them takes the positions over, and
leaves version 0 behind, which one of 0.9.0 does not follow; the last one gives them back when it ends
(decision 122). `read_model_positions` shows the positions in either form.
"""

import zlib

from conversations.database import LEADER_LOCK
from conversations.projections import log_cursors
from runtime.postgres import Connection

SHARDS = 16
"""As many projectors can share the work. To change it, all positions have to be equal for a moment."""

ALL_SHARDS = frozenset(range(SHARDS))

STEP = f"""{log_cursors.TABLES}
CREATE VIEW read_model_positions AS
SELECT p.name, shard, (c.versions ->> p.name)::integer AS version, c.position
  FROM projection_cursors c JOIN projection_positions p ON c.versions ? p.name, unnest(c.shards) AS shard
 WHERE p.version = 0
 UNION ALL
SELECT p.name, shard::smallint, p.version, p.position
  FROM projection_positions p JOIN read_models USING (name),
       generate_series(0, {SHARDS - 1}) AS shard
 WHERE p.version <> 0;
GRANT SELECT ON read_model_positions TO agentchat_service;
"""  # noqa: S608 - our own parts


def shard_of(account_id: str) -> int:
    """The shard that an account belongs to, for ever."""
    return zlib.crc32(account_id.encode()) % SHARDS


async def take_over(conn: Connection) -> bool:
    """Have all read models' positions by shard, and no cursors made or removed by others; False where a
    projector of 0.9.0 works.

    Within an open transaction, until whose end none of 0.9.0 begins.
    """
    row = await (await conn.execute(_NONE_OF_BEFORE, [LEADER_LOCK])).fetchone()
    if row != (True,):
        return False
    await log_cursors.lock_cursors(conn)
    for name, version, position in await (await conn.execute(_BEFORE)).fetchall():
        await log_cursors.place(conn, name, version, ALL_SHARDS, position)
        await conn.execute(_TAKE, [name])
    return True


async def give_back(conn: Connection) -> None:
    """Have one position a read model, for which all of its shards have to be at the same, if this session is
    the only one that holds LEADER_LOCK. Within an open transaction.
    """
    row = await (await conn.execute(_NO_OTHER, [LEADER_LOCK])).fetchone()
    if row == (True,):
        await log_cursors.lock_positions(conn)
        given = await (await conn.execute(_GIVE_BACK)).fetchall()
        # So that a process that believes to hold a shard moves nothing.
        await log_cursors.remove(conn, [name for (name,) in given])


async def note_positions(conn: Connection) -> None:
    """Note up to where each read model has everything, for readers of 0.9.0 and for compaction."""
    await conn.execute(_NOTE)


_NONE_OF_BEFORE = "SELECT pg_try_advisory_xact_lock_shared(%s)"

_NO_OTHER = "SELECT pg_try_advisory_xact_lock(%s)"

_BEFORE = """
SELECT name, p.version, p.position FROM projection_positions p JOIN read_models USING (name)
 WHERE p.version <> 0 ORDER BY name FOR UPDATE OF p
"""

_TAKE = "UPDATE projection_positions SET version = 0 WHERE name = %s"

_GIVE_BACK = """
WITH equal AS (
    SELECT name, min(version) AS version, min(position) AS position FROM read_model_positions
     GROUP BY name HAVING (min(version), min(position)) = (max(version), max(position))
)
UPDATE projection_positions p SET version = equal.version, position = equal.position
  FROM equal WHERE p.name = equal.name AND p.version = 0 RETURNING p.name
"""

_NOTE = """
UPDATE projection_positions p SET position = reached.position
  FROM (SELECT name, min(position) AS position FROM read_model_positions GROUP BY name) AS reached
 WHERE p.name = reached.name AND p.version = 0 AND p.position < reached.position
"""
