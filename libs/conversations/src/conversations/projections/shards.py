"""Shards of accounts: how far each read model is, shard by shard, so that several projectors share them.

An account belongs to a shard by the hash of its id, whatever the number of projectors: who works on which
shard is `shard_leases`. Each read model has a position in the log for each shard, in `projection_shards`.
A transaction that applies a page also moves the positions that it went on from, and is refused where they are
not there any more: so an event is applied once, whoever believes to hold the shard.

Release 0.9.0 has one position a read model, in `projection_positions`, and one projector that works while it
holds LEADER_LOCK. Projectors of this release hold it shared. The first of them takes the positions over, and
leaves version 0 behind, which one of 0.9.0 does not follow; the last one gives them back when it ends
(decision 122). `read_model_positions` shows the positions in either form.
"""

import zlib

from conversations.database import LEADER_LOCK
from runtime.postgres import Connection

SHARDS = 16
"""As many projectors can share the work. To change it, all positions have to be equal for a moment."""

ALL_SHARDS = frozenset(range(SHARDS))

STEP = f"""
CREATE TABLE projection_shards (
    name text NOT NULL,
    shard smallint NOT NULL CHECK (shard BETWEEN 0 AND {SHARDS - 1}),
    version integer NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (name, shard)
) WITH (fillfactor = 50);
GRANT SELECT, INSERT, UPDATE, DELETE ON projection_shards TO agentchat_service;
CREATE VIEW read_model_positions AS
SELECT s.name, s.shard, s.version, s.position
  FROM projection_shards s JOIN projection_positions p USING (name) WHERE p.version = 0
 UNION ALL
SELECT p.name, shard::smallint, p.version, p.position
  FROM projection_positions p JOIN read_models USING (name),
       generate_series(0, {SHARDS - 1}) AS shard
 WHERE p.version <> 0;
GRANT SELECT ON read_model_positions TO agentchat_service;
"""  # noqa: S608 - a number of this module


def shard_of(account_id: str) -> int:
    """The shard that an account belongs to, for ever."""
    return zlib.crc32(account_id.encode()) % SHARDS


async def take_over(conn: Connection) -> bool:
    """Have all read models' positions by shard; False where a projector of 0.9.0 works.

    Within an open transaction, until whose end none of 0.9.0 begins.
    """
    row = await (await conn.execute(_NONE_OF_BEFORE, [LEADER_LOCK])).fetchone()
    if row != (True,):
        return False
    await conn.execute(_TAKE_OVER, [SHARDS])
    return True


async def give_back(conn: Connection) -> None:
    """Have one position a read model, for which all of its shards have to be at the same, if this session is
    the only one that holds LEADER_LOCK. Within an open transaction.
    """
    row = await (await conn.execute(_NO_OTHER, [LEADER_LOCK])).fetchone()
    if row == (True,):
        await lock_positions(conn)
        await conn.execute(_GIVE_BACK)


async def lock_positions(conn: Connection) -> None:
    """Let nobody move a position until the end of the open transaction.

    Raises psycopg.errors.LockNotAvailable where a page is not committed in time.
    """
    await conn.execute("SET LOCAL lock_timeout TO '1500ms'")
    await conn.execute("LOCK TABLE projection_shards IN SHARE ROW EXCLUSIVE MODE")


async def note_positions(conn: Connection) -> None:
    """Note up to where each read model has everything, for readers of 0.9.0 and for compaction."""
    await conn.execute(_NOTE)


_NONE_OF_BEFORE = "SELECT pg_try_advisory_xact_lock_shared(%s)"

_NO_OTHER = "SELECT pg_try_advisory_xact_lock(%s)"

_TAKE_OVER = """
WITH before AS (
    SELECT name, p.version, p.position FROM projection_positions p JOIN read_models USING (name)
     WHERE p.version <> 0 ORDER BY name FOR UPDATE OF p
), taken AS (
    UPDATE projection_positions p SET version = 0 FROM before WHERE p.name = before.name
)
INSERT INTO projection_shards (name, shard, version, position)
SELECT name, shard, version, position FROM before CROSS JOIN generate_series(0, %s - 1) AS shard
ON CONFLICT (name, shard) DO UPDATE SET version = excluded.version, position = excluded.position
"""

# Deleted, so that a process that believes to hold a shard moves nothing.
_GIVE_BACK = """
WITH equal AS (
    SELECT name, min(version) AS version, min(position) AS position FROM projection_shards
     GROUP BY name HAVING (min(version), min(position)) = (max(version), max(position))
), given AS (
    UPDATE projection_positions p SET version = equal.version, position = equal.position
      FROM equal WHERE p.name = equal.name
)
DELETE FROM projection_shards WHERE name IN (SELECT name FROM equal)
"""

_NOTE = """
UPDATE projection_positions p SET position = reached.position
  FROM (SELECT name, min(position) AS position FROM projection_shards GROUP BY name) AS reached
 WHERE p.name = reached.name AND p.version = 0 AND p.position < reached.position
"""
