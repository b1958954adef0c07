"""Cursors: which read models have all up to which position of the log, in which shards.

What is at one position and moves together is one cursor, a row: as a rule all read models, in the shards
that one process holds. So a page moves one row. Who moves a cursor states it whole. Where another process has
moved it, or has made others of it, nothing is moved.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec
from psycopg.types.json import Jsonb

from runtime.postgres import Connection, Cursor

TABLES = """
CREATE TABLE projection_cursors (
    versions jsonb NOT NULL,
    shards smallint[] NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (versions, shards)
) WITH (fillfactor = 50);
GRANT SELECT, INSERT, UPDATE, DELETE ON projection_cursors TO agentchat_service;
"""


class LogCursor(msgspec.Struct):
    """Read models, by name with the version of their tables, that are at `position` in these shards."""

    versions: dict[str, int]
    shards: frozenset[int]
    position: int


async def lock_cursors(conn: Connection) -> None:
    """Let nobody else make or remove one until the end of the open transaction. They are moved meanwhile."""
    await conn.execute("LOCK TABLE projection_cursors IN SHARE UPDATE EXCLUSIVE MODE")


async def lock_positions(conn: Connection) -> None:
    """Let nobody move one, either. Raises psycopg.errors.LockNotAvailable where a page is not committed in
    time.
    """
    await conn.execute("SET LOCAL lock_timeout TO '1500ms'")
    await conn.execute("LOCK TABLE projection_cursors IN SHARE ROW EXCLUSIVE MODE")


async def claim(conn: Connection, shards: Collection[int], versions: Mapping[str, int]) -> list[LogCursor]:
    """Those of these shards, after they were parted from others': as few as can be of the read models that
    have these `versions`, then those of the rest. Within a transaction that has `lock_cursors`.
    """
    rows = await (await conn.execute(_OF_SHARDS, [sorted(shards)])).fetchall()
    stored = [LogCursor(found, frozenset(own), position) for found, own, position in rows]
    claimed, others = regrouped(stored, frozenset(shards), versions)
    for each in stored:
        if each not in claimed and each not in others:
            await conn.execute(_DELETE, _key(each))
    for each in (*claimed, *others):
        if each not in stored:
            await conn.execute(_INSERT, [*_key(each), each.position])
    return claimed


def regrouped(
    stored: Sequence[LogCursor], shards: frozenset[int], versions: Mapping[str, int]
) -> tuple[list[LogCursor], list[LogCursor]]:
    """`stored` as those of `shards`, merged where they are at one position, and those of other shards.

    A read model of another version than in `versions` is not merged with one of these.
    """
    places: dict[tuple[int, int, bool], dict[str, int]] = {}
    for each in stored:
        for shard in each.shards & shards:
            for name, version in each.versions.items():
                key = (each.position, shard, versions.get(name) == version)
                places.setdefault(key, {})[name] = version
    alike: dict[tuple[int, bool, frozenset[tuple[str, int]]], set[int]] = {}
    for (position, shard, known), found in places.items():
        alike.setdefault((position, known, frozenset(found.items())), set()).add(shard)
    claimed = [LogCursor(dict(found), frozenset(own), at) for (at, _, found), own in alike.items()]
    parted = [LogCursor(each.versions, each.shards - shards, each.position) for each in stored]
    return claimed, [each for each in parted if each.shards]


async def move(conn: Connection, cursors: Sequence[LogCursor], end: int) -> list[Cursor]:
    """From where they are to `end`: a statement each, that has moved one row, or none if it is not there.

    In the order of their shards, in which `claim` locks them.
    """
    ordered = sorted(cursors, key=lambda each: sorted(each.shards))
    return [await conn.execute(_MOVE, [end, each.position, *_key(each)]) for each in ordered]


async def place(conn: Connection, name: str, version: int, shards: Collection[int], position: int) -> None:
    """Have a read model at one position in all `shards`. Within a transaction that has `lock_cursors`."""
    await remove(conn, [name])
    await conn.execute(_INSERT, [*_key(LogCursor({name: version}, frozenset(shards), position)), position])


async def remove(conn: Connection, names: Sequence[str]) -> None:
    """Have no position of these read models. Within a transaction that has `lock_cursors`."""
    given = {"names": list(names)}
    await conn.execute(_DELETE_ALONE, given)
    await conn.execute(_REMOVE, given)


def _key(cursor: LogCursor) -> list[object]:
    return [Jsonb(cursor.versions), sorted(cursor.shards)]


_OF_SHARDS = """
SELECT versions, shards, position FROM projection_cursors
 WHERE shards && %s::smallint[] ORDER BY shards FOR UPDATE
"""

_DELETE = "DELETE FROM projection_cursors WHERE (versions, shards) = (%s, %s::smallint[])"

_INSERT = "INSERT INTO projection_cursors (versions, shards, position) VALUES (%s, %s, %s)"

_MOVE = """
UPDATE projection_cursors SET position = %s
 WHERE position = %s AND (versions, shards) = (%s, %s::smallint[])
   AND NOT EXISTS (SELECT FROM projection_positions p WHERE p.version <> 0 AND versions ? p.name)
"""
"""Nothing while 0.9.0 has one of the read models (`shards`)."""

_DELETE_ALONE = "DELETE FROM projection_cursors WHERE versions - %(names)s::text[] = '{}'"

_REMOVE = """
UPDATE projection_cursors SET versions = versions - %(names)s::text[] WHERE versions ?| %(names)s::text[]
"""
