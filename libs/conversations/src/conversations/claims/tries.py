"""Which run a try of a request belongs to, where its client counts its tries and gives them no key.

A try is known by a hash of all that its request says. A row of `idempotency_keys` has that hash for its key,
and says who has claimed it:

- `first`: one first try, whose run later tries join;
- `later`: a later try came before its first one, which is to join it;
- `several`: first tries with one hash were open together. Which of them a later try repeats nobody knows, so
  each try is a request of its own;
- `answered`: a caller has had the whole answer; kept for a moment, as he may not have read it to its end.

A run that has failed is joined by nobody.
"""

from typing import Any, Literal

import msgspec
from psycopg import sql

from conversations.claims.idempotency import Claim, key_hash, made
from conversations.claims.table import AnsweredTry, Claims, NewClaim
from conversations.database import NOW
from conversations.queries.find_run import BEGUN_AT
from runtime.postgres import Connection, connection

TRIES_SECONDS = 900.0
"""So long tries belong together: beyond a run's ten minutes, and an SDK's patience for an answer."""

_LATE_SECONDS = 5.0
"""A first try may come so much later than the one behind it, at another gateway."""


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """`request` is the hash of all that it says; `asked_at`, ISO 8601 by the clock of Postgres, when it came.

    `answered_seconds`: how long after an answer later tries join it still.
    """

    account_id: str
    request: str
    first: bool
    asked_at: str
    answered_seconds: float = 0.0

    @property
    def key_hash(self) -> str:
        """No key of a caller has a line break."""
        return key_hash(self.account_id, f"\n{self.request}")


async def claim_try(
    claims: Claims, attempted: Try, *, trace_id: str, conversation_id: str, seconds: float
) -> Claim | None:
    """Claim the request for `seconds`, or find the run of its other tries; None where it is on its own.

    Raises DatabaseUnavailable.
    """
    new = NewClaim(
        account_id=attempted.account_id,
        key_hash=attempted.key_hash,
        request_hash=b"",
        trace_id=trace_id,
        conversation_id=conversation_id,
        seconds=seconds,
        tried="first" if attempted.first else "later",
        kept_seconds=TRIES_SECONDS,
    )
    given = {
        "account": new.account_id,
        "key": new.key_hash,
        "trace": new.trace_id,
        "conversation": new.conversation_id,
        "tried": new.tried,
        "asked_at": attempted.asked_at,
        "seconds": new.seconds,
        "kept": new.kept_seconds,
        "late": _LATE_SECONDS,
    }
    while (now := await claims.insert(new)) is None:
        async with connection(claims.pool) as conn, conn.transaction():
            row = await (await conn.execute(_LOCK, given)).fetchone()
            if row is not None:
                return await _join(conn, attempted, _Kept(*row), given)
    return made(new, now)


async def answered(claims: Claims, attempted: Try, trace_id: str) -> None:
    """A caller has had the whole answer of this run. Raises DatabaseUnavailable."""
    kept = attempted.answered_seconds
    await claims.answered(
        AnsweredTry(
            account_id=attempted.account_id,
            key_hash=attempted.key_hash,
            trace_id=trace_id,
            kept_seconds=kept,
            later_seconds=max(_LATE_SECONDS, kept),
        )
    )


class _Kept(msgspec.Struct, frozen=True):
    """A row. `spent`: old when the try came, or its run has failed; `earlier`: made before the try came."""

    trace_id: str
    conversation_id: str
    publication: int
    seconds: float
    now: str
    begun_at: int | None = None
    tried: str = "first"
    spent: bool = False
    earlier: bool = False


_Outcome = Literal["new", "several", "again", "join"]


def _outcome(kept: _Kept, *, first: bool) -> _Outcome:
    if kept.spent or (first and kept.tried == "answered"):
        return "new"
    if kept.tried == "several" or (first and (kept.tried == "first" or kept.earlier)):
        return "several"
    return "again" if kept.begun_at is None and kept.seconds == 0 else "join"


async def _join(conn: Connection, attempted: Try, kept: _Kept, given: dict[str, Any]) -> Claim | None:
    outcome = _outcome(kept, first=attempted.first)
    if outcome == "several":
        if attempted.first:
            await conn.execute(_SEVERAL, given)
        return None
    if outcome == "join":
        if attempted.first:
            await conn.execute(_FIRST, given)
        return _claim(attempted, kept, mine=False)
    row = await (await conn.execute(_NEW if outcome == "new" else _AGAIN, given)).fetchone()
    assert row is not None
    return _claim(attempted, _Kept(*row), mine=True)


def _claim(attempted: Try, kept: _Kept, *, mine: bool) -> Claim:
    return Claim(
        account_id=attempted.account_id,
        key_hash=attempted.key_hash,
        trace_id=kept.trace_id,
        conversation_id=kept.conversation_id,
        publication=kept.publication,
        mine=mine,
        seconds=kept.seconds,
        now=kept.now,
        begun_at=kept.begun_at,
    )


_PARTS = {
    "place": sql.SQL("WHERE account_id = %(account)s AND key = %(key)s"),
    "until": sql.SQL("clock_timestamp() + make_interval(secs => %(seconds)s)"),
    "kept": sql.SQL("clock_timestamp() + make_interval(secs => %(kept)s)"),
    "claimed": sql.SQL(
        "RETURNING trace_id, conversation_id, publication,"
        " extract(epoch FROM claimed_until - clock_timestamp())::float8, {now}"
    ).format(now=NOW),
}

_LOCK = sql.SQL("""
SELECT trace_id, conversation_id, publication,
       greatest(0, extract(epoch FROM claimed_until - clock_timestamp()))::float8, {now}, {begun_at}, tried,
       kept_until <= %(asked_at)s::timestamptz OR EXISTS (
           SELECT FROM conversation_events
            WHERE topic IN ('run_completed.v1', 'run_failed.v1', 'run_cancelled.v1')
              AND topic = 'run_failed.v1' AND trace_of_event(state) = kept.trace_id),
       created_at + make_interval(secs => %(late)s) < %(asked_at)s::timestamptz
  FROM idempotency_keys kept {place} FOR UPDATE
""").format(now=NOW, begun_at=BEGUN_AT.format(sql.SQL("kept.trace_id")), place=_PARTS["place"])

_NEW = sql.SQL("""
UPDATE idempotency_keys
   SET trace_id = %(trace)s, conversation_id = %(conversation)s, publication = 1, claimed_until = {until},
       created_at = clock_timestamp(), tried = %(tried)s, kept_until = {kept}
 {place} {claimed}
""").format(**_PARTS)

_AGAIN = sql.SQL("""
UPDATE idempotency_keys SET publication = publication + 1, claimed_until = {until} {place} {claimed}
""").format(**_PARTS)

_SEVERAL = sql.SQL("UPDATE idempotency_keys SET tried = 'several', kept_until = {kept} {place}").format(
    **_PARTS
)

_FIRST = sql.SQL("UPDATE idempotency_keys SET tried = 'first' {place}").format(**_PARTS)
