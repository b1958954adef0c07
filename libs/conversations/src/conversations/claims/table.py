"""The table of claims as the gateways write it: what is written at the same moment goes to Postgres together.

Most claims are of keys that nobody has used, and most tries are answered without another: so these share
statements and commits. What is found instead, and who may take it over, is asked for each alone.
"""

import asyncio
from collections.abc import Sequence

import msgspec
import psycopg

from conversations.database import NOW
from runtime.batched_statement import BatchedStatement, Form, Rows, array_of
from runtime.postgres import DatabaseUnavailable, Pool, connection


class NewClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A row to be: `key_hash` has 64 hexadecimal digits and is of the account too.

    `seconds` are for its request to be accepted. What is `tried` is forgotten after `kept_seconds`.
    """

    account_id: str
    key_hash: str
    request_hash: bytes
    trace_id: str
    conversation_id: str
    seconds: float
    tried: str | None = None
    kept_seconds: float | None = None


class AnsweredTry(msgspec.Struct, frozen=True):
    """The row of a try whose caller has the whole answer of its run, and how long it is kept from now on.

    A later try's is kept `later_seconds`, for its first one, which may yet come.
    """

    account_id: str
    key_hash: str
    trace_id: str
    kept_seconds: float
    later_seconds: float


class Claims:
    """Close with `aclose`, before the pool."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        insert = Form(_INSERT.format(*_PLACES, _NOW), _parameters, _times, self._insert_alone)
        answered = Form(_ANSWERED.format(*_PLACES), _parameters, _nothing, self._lose, durable=False)
        self._insert: BatchedStatement[NewClaim, str | None] = BatchedStatement(pool, insert)
        self._answered: BatchedStatement[AnsweredTry, None] = BatchedStatement(pool, answered)

    async def insert(self, claim: NewClaim) -> str | None:
        """The time by the clock of Postgres once it is on disk; None where the key has a row.

        Raises DatabaseUnavailable: then it is unknown whether it has one.
        """
        return await self._insert.call(claim)

    async def answered(self, answered: AnsweredTry) -> None:
        """No try comes after this one. Raises DatabaseUnavailable.

        If it is lost, equal requests are kept apart for longer.
        """
        await self._answered.call(answered)

    async def aclose(self) -> None:
        """Write nothing any more."""
        await self._insert.aclose()
        await self._answered.aclose()

    async def _insert_alone(self, claim: NewClaim, end: float, failed: psycopg.Error) -> str | None:
        """Not where the connection broke: the claim may have been made, and would be taken for another's."""
        if isinstance(failed, psycopg.OperationalError):
            raise DatabaseUnavailable(str(failed)) from failed
        given = [[value] for value in msgspec.structs.astuple(claim)]
        async with connection(self.pool, seconds=end - asyncio.get_running_loop().time()) as conn:
            cursor = await conn.execute(_INSERT.format(*["%s"] * len(given), _NOW).encode(), given)
            return _times([claim], await cursor.fetchall())[0]

    async def _lose(self, _answered: AnsweredTry, _end: float, failed: psycopg.Error) -> None:
        raise DatabaseUnavailable(str(failed)) from failed


def _parameters(batch: Sequence[NewClaim | AnsweredTry]) -> Sequence[bytes]:
    """An array for each field."""
    columns = zip(*map(msgspec.structs.astuple, batch), strict=True)
    return [array_of([_text_of(value) for value in column]) for column in columns]


def _text_of(value: str | bytes | float | None) -> str | None:
    match value:
        case bytes():
            return rf"\x{value.hex()}"
        case str() | None:
            return value
        case _:
            return repr(value)


def _nothing(batch: Sequence[AnsweredTry], _: Rows) -> Sequence[None]:
    return [None] * len(batch)


def _times(batch: Sequence[NewClaim], rows: Rows) -> Sequence[str | None]:
    """Of several claims of one key at the same moment the first has it."""
    made: dict[str, str] = dict(rows)
    return [made.pop(claim.key_hash, None) for claim in batch]


_PLACES = [f"${number}" for number in range(1, 9)]
_NOW = NOW.as_string()

# In the order of their keys, so that two gateways do not wait for each other.
_INSERT = """
INSERT INTO idempotency_keys
       (account_id, key, request_hash, trace_id, conversation_id, publication, claimed_until,
        tried, kept_until)
SELECT account_id, key, request_hash, trace_id, conversation_id, 1,
       clock_timestamp() + make_interval(secs => seconds),
       tried, clock_timestamp() + make_interval(secs => kept)
  FROM unnest({}::text[], {}::text[], {}::bytea[], {}::text[], {}::text[], {}::float8[],
              {}::text[], {}::float8[]) WITH ORDINALITY
       AS claims (account_id, key, request_hash, trace_id, conversation_id, seconds, tried, kept, place)
 ORDER BY key, place
    ON CONFLICT (account_id, key) DO NOTHING
RETURNING key, {}
"""

_ANSWERED = """
UPDATE idempotency_keys kept
   SET tried = CASE tried WHEN 'later' THEN 'later' ELSE 'answered' END,
       kept_until = clock_timestamp() + make_interval(
           secs => CASE tried WHEN 'later' THEN answered.later ELSE answered.seconds END)
  FROM unnest({}::text[], {}::text[], {}::text[], {}::float8[], {}::float8[])
       AS answered (account_id, key, trace_id, seconds, later)
 WHERE kept.account_id = answered.account_id AND kept.key = answered.key
   AND kept.trace_id = answered.trace_id AND kept.tried <> 'several'
"""
