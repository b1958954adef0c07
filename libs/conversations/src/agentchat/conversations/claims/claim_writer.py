"""The table of claims as the gateways write it: what is written at the same moment goes to Postgres together.

Most claims are of keys that nobody has used, so these share statements and commits. What is found
instead, and who may take it over, is asked for each alone.
"""

from collections.abc import Sequence

import msgspec

from agentchat.conversations.database import NOW
from agentchat.runtime.batched_statement import BatchedStatement, Form, Rows
from agentchat.runtime.postgres import Pool


class NewClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A row to be: `key_hash` has 64 hexadecimal digits and is of the account too.

    `seconds` are for its request to be accepted.
    """

    account_id: str
    key_hash: str
    request_hash: bytes
    trace_id: str
    conversation_id: str
    seconds: float


class Claims:
    """Close with `aclose`, before the pool."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        # Where the connection broke, the claim may have been made: repeated, it would find its own row.
        insert = Form(_INSERT, _build_parameters, _read_times, repeatable=False)
        self._insert: BatchedStatement[NewClaim, str | None] = BatchedStatement(pool, insert)

    async def insert(self, claim: NewClaim) -> str | None:
        """The time by the clock of Postgres once it is on disk; None where the key has a row.

        Raises DatabaseUnavailable: then it is unknown whether it has one.
        """
        return await self._insert.call(claim)

    async def aclose(self) -> None:
        await self._insert.aclose()


def _build_parameters(batch: Sequence[NewClaim]) -> Sequence[object]:
    return [list(column) for column in zip(*map(msgspec.structs.astuple, batch), strict=True)]


def _read_times(batch: Sequence[NewClaim], rows: Rows) -> Sequence[str | None]:
    """Of several claims of one key at the same moment the first has it."""
    made: dict[str, str] = dict(rows)
    return [made.pop(claim.key_hash, None) for claim in batch]


# In the order of their keys, so that two gateways do not wait for each other.
_INSERT = f"""
INSERT INTO idempotency_keys
       (account_id, key, request_hash, trace_id, conversation_id, publication, claimed_until)
SELECT account_id, key, request_hash, trace_id, conversation_id, 1,
       clock_timestamp() + make_interval(secs => seconds)
  FROM unnest(%b::text[], %b::text[], %b::bytea[], %b::text[], %b::text[], %b::float8[]) WITH ORDINALITY
       AS claims (account_id, key, request_hash, trace_id, conversation_id, seconds, place)
 ORDER BY key, place
    ON CONFLICT (account_id, key) DO NOTHING
RETURNING key, {NOW.as_string()}
""".encode()  # noqa: S608 - a clock
