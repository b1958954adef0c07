"""Claim idempotency keys: find a key's run, and the one request that publishes it.

A row is a claim: until `claimed_until` the request that made it is being accepted. After that the log alone
decides (decision 9): a run that has started is the answer; one that has not may be published again, under the
same trace and in the same conversation, so that it cannot start twice.

A row outlives the deletion of its conversation, so it holds hashes of the key and the request, and no
content. Claimed by `gateway.runs.request_hash`.
"""

import hashlib

import msgspec
from psycopg import sql

from agentchat.contracts.ownership import Owned, build_scope
from agentchat.conversations.idempotency.claim_writer import Claims, NewClaim
from agentchat.conversations.postgres_sessions import NOW
from agentchat.conversations.queries.find_by_trace import BEGUN, BEGUN_AT
from agentchat.runtime.postgres import Pool, acquire_connection

KEPT_HOURS = 24
_FORGET_AT_ONCE = 5000

TABLES = """
CREATE TABLE idempotency_keys (
    account_id text NOT NULL,
    key text NOT NULL,
    request_hash bytea NOT NULL,
    trace_id text NOT NULL,
    conversation_id text NOT NULL,
    publication integer NOT NULL,
    claimed_until timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (account_id, key)
);
CREATE INDEX idempotency_keys_age_idx ON idempotency_keys (created_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency_keys TO agentchat_service;
"""


class KeyConflict(Exception):  # noqa: N818 - an outcome
    """The key stands for another request."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The run that a key stands for, or the run of a request without a key, which has no `key_hash`.

    If `mine`, this request publishes it, for the `publication`-th time (from 1).

    Otherwise another request does, with `seconds` left to be accepted; `begun_at` is the version of its user
    message once its run has started. `now` is Postgres' clock: ISO 8601 UTC.
    """

    account_id: str
    key_hash: str = ""
    trace_id: str
    conversation_id: str
    publication: int = 1
    mine: bool = True
    seconds: float = 0.0
    now: str
    begun_at: int | None = None


async def is_repeat(pool: Pool, owner: Owned, key: str) -> bool:
    """Return True if a request with this key has started a run or is being accepted.

    Raises DatabaseUnavailable.
    """
    async with acquire_connection(pool) as conn:
        cursor = await conn.execute(
            _IS_REPEAT, [owner.account_id, compute_key_hash(owner, key)], prepare=True
        )
        row = await cursor.fetchone()
    return row is not None and bool(row[0])


async def claim_key(
    claims: Claims,
    *,
    owner: Owned,
    key: str,
    request_hash: bytes,
    trace_id: str,
    conversation_id: str,
    seconds: float,
) -> Claim:
    """Claim a key for `seconds` if it is free or its claim was abandoned.

    Return what it stands for. An abandoned claim is taken over with its trace and conversation.
    Raises KeyConflict, DatabaseUnavailable.
    """
    new = NewClaim(
        account_id=owner.account_id or "",
        key_hash=compute_key_hash(owner, key),
        request_hash=_hash_request(request_hash, key),
        trace_id=trace_id,
        conversation_id=conversation_id,
        seconds=seconds,
    )
    now = await claims.insert(new)
    return build_claim(new, now) if now is not None else await _claim_known(claims.pool, new)


def build_claim(new: NewClaim, now: str) -> Claim:
    """Return the claim of a new row."""
    return Claim(
        account_id=new.account_id,
        key_hash=new.key_hash,
        trace_id=new.trace_id,
        conversation_id=new.conversation_id,
        publication=1,
        mine=True,
        seconds=new.seconds,
        now=now,
    )


async def _claim_known(pool: Pool, new: NewClaim) -> Claim:
    given = {
        "account": new.account_id,
        "key": new.key_hash,
        "hash": new.request_hash,
        "trace": new.trace_id,
        "conversation": new.conversation_id,
        "seconds": new.seconds,
        "hours": KEPT_HOURS,
    }
    async with acquire_connection(pool) as conn:
        while True:
            row = await (await conn.execute(_CLAIM, given, prepare=True)).fetchone()
            if row is not None:
                return _build_claim(new, row, mine=True)
            row = await (await conn.execute(_LOOK, given)).fetchone()
            if row is not None and not row[-1]:
                raise KeyConflict
            if row is not None:
                return _build_claim(new, row, mine=False)


_FIELDS = ("trace_id", "conversation_id", "publication", "seconds", "now", "begun_at")


def _build_claim(new: NewClaim, row: tuple[object, ...], *, mine: bool) -> Claim:
    fields = dict(zip(_FIELDS, row, strict=False))
    place = {"account_id": new.account_id, "key_hash": new.key_hash}
    return msgspec.convert({**fields, **place, "mine": mine}, Claim)


def compute_key_hash(owner: Owned, key: str) -> str:
    """Return the stored form of a key: 64 hexadecimal digits. A key of one user is not another's."""
    return hashlib.sha256(f"{build_scope(owner)} {key}".encode()).hexdigest()


def _hash_request(request_hash: bytes, key: str) -> bytes:
    """Return the stored form of a request.

    Without the key nobody can test guesses of the request against it.
    """
    return hashlib.sha256(key.encode() + request_hash).digest()


async def extend_claim(pool: Pool, claim: Claim, seconds: float) -> None:
    """Give the claim's request `seconds` more from now. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        place = [claim.account_id, claim.key_hash, claim.trace_id, claim.publication]
        await conn.execute(_EXTEND, [seconds, *place])


async def give_up_claim(pool: Pool, claim: Claim, *, refused: bool) -> None:
    """Give up the claim of a request that was not accepted.

    `refused`: a worker refused it, and its run never starts. The key of a refused first publication is free
    again. Otherwise the run may still start: the next request with the key finds it, or publishes it again.
    Raises DatabaseUnavailable.
    """
    query = _FREE if refused and claim.publication == 1 else _EXPIRE
    async with acquire_connection(pool) as conn:
        await conn.execute(query, [claim.account_id, claim.key_hash, claim.trace_id, claim.publication])


async def forget_old_keys(pool: Pool) -> None:
    """Delete the keys that are older than a day, some thousand at a time.

    Raises DatabaseUnavailable.
    """
    deleted = _FORGET_AT_ONCE
    while deleted == _FORGET_AT_ONCE:
        async with acquire_connection(pool) as conn:
            deleted = (await conn.execute(_FORGET, [KEPT_HOURS, _FORGET_AT_ONCE])).rowcount


_IS_REPEAT = (
    sql.SQL("""
SELECT kept.claimed_until > clock_timestamp() OR {begun}
  FROM idempotency_keys kept
 WHERE account_id = %s AND key = %s AND created_at > clock_timestamp() - interval '{hours} hours'
""")
    .format(begun=BEGUN.format(sql.SQL("kept.trace_id")), hours=sql.SQL(str(KEPT_HOURS)))
    .as_bytes()
)

_CLAIM = (
    sql.SQL("""
INSERT INTO idempotency_keys AS kept
       (account_id, key, request_hash, trace_id, conversation_id, publication, claimed_until)
VALUES (%(account)s, %(key)s, %(hash)s, %(trace)s, %(conversation)s, 1,
       clock_timestamp() + make_interval(secs => %(seconds)s))
    ON CONFLICT (account_id, key) DO UPDATE
   SET (request_hash, trace_id, conversation_id, publication, claimed_until, created_at) = (
       SELECT excluded.request_hash,
              CASE WHEN is_old THEN excluded.trace_id ELSE kept.trace_id END,
              CASE WHEN is_old THEN excluded.conversation_id ELSE kept.conversation_id END,
              CASE WHEN is_old THEN 1 ELSE kept.publication + 1 END,
              excluded.claimed_until,
              CASE WHEN is_old THEN clock_timestamp() ELSE kept.created_at END
         FROM (SELECT kept.created_at <= clock_timestamp() - make_interval(hours => %(hours)s) AS is_old))
 WHERE kept.created_at <= clock_timestamp() - make_interval(hours => %(hours)s)
    OR (kept.request_hash = excluded.request_hash AND kept.claimed_until <= clock_timestamp()
        AND NOT {begun})
RETURNING trace_id, conversation_id, publication,
          extract(epoch FROM claimed_until - clock_timestamp())::float8, {now}
""")
    .format(begun=BEGUN.format(sql.SQL("kept.trace_id")), now=NOW)
    .as_bytes()
)

_LOOK = sql.SQL("""
SELECT trace_id, conversation_id, publication,
       greatest(0, extract(epoch FROM claimed_until - clock_timestamp()))::float8, {now},
       {begun_at}, request_hash = %(hash)s
  FROM idempotency_keys kept WHERE account_id = %(account)s AND key = %(key)s
""").format(now=NOW, begun_at=BEGUN_AT.format(sql.SQL("kept.trace_id")))

_EXTEND = """
UPDATE idempotency_keys SET claimed_until = clock_timestamp() + make_interval(secs => %s)
 WHERE account_id = %s AND key = %s AND trace_id = %s AND publication = %s
"""

_EXPIRE = """
UPDATE idempotency_keys SET claimed_until = clock_timestamp()
 WHERE account_id = %s AND key = %s AND trace_id = %s AND publication = %s
"""

_FREE = """
DELETE FROM idempotency_keys WHERE account_id = %s AND key = %s AND trace_id = %s AND publication = %s
"""

_FORGET = """
DELETE FROM idempotency_keys WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM idempotency_keys
     WHERE created_at <= (SELECT clock_timestamp() - make_interval(hours => %s)) LIMIT %s))
"""
