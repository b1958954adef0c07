"""What the log had come to on a day: one hash over the last link of each conversation that it changed.

Kept elsewhere, it shows whether the log still leads through there: a chain that was written again, with all
of its links, does not. An erased conversation is in it as before, by the seals that its erasure leaves.
"""

import hashlib
from collections.abc import Sequence
from datetime import date
from typing import Literal

import msgspec
from psycopg import sql

from conversations.chain.links import LINK_BYTES
from conversations.database import EVENTS_TABLE, unbounded
from conversations.event_store.feed_reader import fed_before
from conversations.event_store.log import Log
from runtime.postgres import Pool, connection

_SCAN_SECONDS = 3600.0


class Leaf(msgspec.Struct, frozen=True, array_like=True):
    """The last event of a conversation within a day: its position, and its link's seal in hexadecimal."""

    conversation_id: str
    position: int
    seal: str


class DayHead(msgspec.Struct, frozen=True, kw_only=True):
    """`sha256` is of all leaves of the positions in (after, through]; `conversations` counts them."""

    format: Literal["agentchat.day_head"] = "agentchat.day_head"
    version: Literal[1] = 1
    day: date
    after: int
    through: int
    conversations: int
    sha256: str


class HeadDifference(msgspec.Struct, frozen=True, kw_only=True):
    """How the log of today differs from what it was on a day. `conversations` are those whose seals do, where
    the head was kept with its leaves: else it cannot be said. Where nothing is `changed`, what the day's
    erased conversations left is dropped for its age.
    """

    day: date
    reason: str
    conversations: tuple[str, ...] = ()
    changed: bool = True


async def head_of(pool: Pool, log: Log, day: date) -> tuple[DayHead, list[Leaf]]:
    """The head of a day, UTC; of one that is not over, as it is now. Raises DatabaseUnavailable.

    A day begins in the log where the feed had come to when it began: so to some seconds, and once for all.
    """
    end = min(await log.settled(), await log.head())
    after, through = await fed_before(pool, day, until=end)
    leaves = await _leaves(pool, after, through)
    head = DayHead(day=day, after=after, through=through, conversations=len(leaves), sha256=sha256_of(leaves))
    return head, leaves


async def compare(
    pool: Pool, log: Log, head: DayHead, leaves: Sequence[Leaf], *, dropped_before: date = date.min
) -> HeadDifference | None:
    """What the log no longer has of a day; `leaves` where they were kept. Of days before `dropped_before`,
    erased conversations may have left nothing. Raises DatabaseUnavailable.
    """
    end = await log.head()
    if end < head.through:
        return HeadDifference(
            day=head.day, reason=f"the log ends at position {end:,}, and came to {head.through:,}"
        )
    now = await _leaves(pool, head.after, head.through)
    if sha256_of(now) == head.sha256:
        return None
    if head.day < dropped_before:
        return _of_dropped(head, set(now), set(leaves))
    if await _is_lost_within(pool, head):
        reason = "it was taken within a day, of which conversations were compacted: use a whole day's"
        return HeadDifference(day=head.day, reason=reason)
    differing = {leaf.conversation_id for leaf in set(now) ^ set(leaves)} if leaves else ()
    reason = f"positions {head.after + 1:,} to {head.through:,} are not what they were"
    return HeadDifference(day=head.day, reason=reason, conversations=tuple(sorted(differing)))


def _of_dropped(head: DayHead, now: set[Leaf], then: set[Leaf]) -> HeadDifference:
    """Of a day of which some leaves are gone: those that are there have to be the head's."""
    gone = "what erased conversations left of the day is dropped"
    if not then:
        return HeadDifference(day=head.day, reason=f"not compared, without its leaves: {gone}", changed=False)
    if differing := {leaf.conversation_id for leaf in now - then}:
        reason = f"positions {head.after + 1:,} to {head.through:,} are not what they were"
        return HeadDifference(day=head.day, reason=reason, conversations=tuple(sorted(differing)))
    reason = f"OK: {len(now):,} of its {len(then):,} leaves are here and match: {gone}"
    return HeadDifference(day=head.day, reason=reason, changed=False)


def sha256_of(leaves: Sequence[Leaf]) -> str:
    """In the order of the ids' bytes, a line each."""
    digest = hashlib.sha256()
    for leaf in sorted(leaves, key=lambda each: each.conversation_id.encode()):
        digest.update(f"{leaf.conversation_id} {leaf.position} {leaf.seal}\n".encode())
    return digest.hexdigest()


async def _is_lost_within(pool: Pool, head: DayHead) -> bool:
    """Whether the head ends within a day, and seals of that day are gone."""
    async with connection(pool) as conn:
        row = await (await conn.execute(_IS_LOST_WITHIN, {"through": head.through})).fetchone()
    return row == (True,)


async def _leaves(pool: Pool, after: int, through: int) -> list[Leaf]:
    async with connection(pool, seconds=_SCAN_SECONDS) as conn, conn.transaction():
        await unbounded(conn)
        async with conn.cursor(binary=True) as cursor:
            await cursor.execute(_LEAVES, {"after": after, "through": through})
            return [
                Leaf(conversation_id, position, seal.hex())
                for conversation_id, position, seal in await cursor.fetchall()
            ]


_IS_LOST_WITHIN = """
WITH day AS (
    SELECT (SELECT max(position) FROM feed_days WHERE position < %(through)s) AS before,
           (SELECT min(position) FROM feed_days WHERE position > %(through)s) AS through
)
SELECT NOT EXISTS (SELECT FROM feed_days WHERE position = %(through)s)
   AND EXISTS (SELECT FROM compacted_erasures, day
                WHERE first_position <= day.through AND last_position > day.before)
"""

# Positions of an erased conversation ascend: those whose first and last are next to the day are passed over.
_LEAVES = sql.SQL(
    "SELECT DISTINCT ON (conversation_id) conversation_id, position, seal FROM ("
    "  SELECT originator_id AS conversation_id, notification_id AS position,"
    "         sha256(substr(hash, octet_length(hash) - {last})) AS seal"
    "    FROM {table}"
    "   WHERE notification_id > %(after)s AND notification_id <= %(through)s AND hash IS NOT NULL"
    "   UNION ALL"
    "  SELECT conversation_id, position, seal"
    "    FROM erased_links, unnest(positions, seals) AS link (position, seal)"
    "   WHERE positions[1] <= %(through)s AND positions[cardinality(positions)] > %(after)s"
    "     AND position > %(after)s AND position <= %(through)s"
    "   UNION ALL"
    "  SELECT conversation_id::text, position, seal"
    "    FROM compacted_erasures, unnest(conversation_ids, positions, seals)"
    "         AS leaf (conversation_id, position, seal)"
    "   WHERE first_position <= %(through)s AND last_position > %(after)s"
    "     AND position > %(after)s AND position <= %(through)s AND seal IS NOT NULL"
    ") AS links ORDER BY conversation_id, position DESC"
).format(table=sql.Identifier(EVENTS_TABLE), last=LINK_BYTES - 1)
