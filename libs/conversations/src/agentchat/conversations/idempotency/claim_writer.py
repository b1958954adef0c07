"""Insert new claims: those made at the same moment share one statement and commit.

Most claims are of unused keys. A used key is looked up on its own (`idempotency_keys.claim_key`).
"""

from collections.abc import Sequence

import msgspec

from agentchat.conversations.postgres_sessions import NOW
from agentchat.runtime.batched_statement import BatchedStatement, Form, Rows
from agentchat.runtime.postgres import Pool


class NewClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A row to insert: `key_hash` has 64 hexadecimal digits and covers the account.

    `seconds` are granted to its request to be accepted.
    """

    account_id: str
    key_hash: str
    request_hash: bytes
    trace_id: str
    conversation_id: str
    seconds: float


class Claims:
    """Inserts claims in batches. Close with `aclose`, before the pool."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        # Not repeatable: if the connection broke after the commit, a repeat would find its own row.
        insert = Form(_INSERT, _build_parameters, _read_times, repeatable=False)
        self._insert: BatchedStatement[NewClaim, str | None] = BatchedStatement(pool, insert)

    async def insert(self, claim: NewClaim) -> str | None:
        """Insert a claim and return Postgres' time once it is on disk; None if the key has a row.

        Raises DatabaseUnavailable: then it is unknown whether it was inserted.
        """
        return await self._insert.call(claim)

    async def aclose(self) -> None:
        """Stop inserting."""
        await self._insert.aclose()


def _build_parameters(batch: Sequence[NewClaim]) -> Sequence[object]:
    return [list(column) for column in zip(*map(msgspec.structs.astuple, batch), strict=True)]


def _read_times(batch: Sequence[NewClaim], rows: Rows) -> Sequence[str | None]:
    """Return each claim's time; of several claims of one key in a batch the first has it."""
    made: dict[str, str] = dict(rows)
    return [made.pop(claim.key_hash, None) for claim in batch]


# In the order of their keys, so that two gateways do not deadlock.
_INSERT = f"""
INSERT INTO idempotency_keys
       (account_id, key, request_hash, trace_id, conversation_id, publication, claimed_until)
SELECT account_id, key, request_hash, trace_id, conversation_id, 1,
       clock_timestamp() + make_interval(secs => seconds)
  FROM unnest($1::text[], $2::text[], $3::bytea[], $4::text[], $5::text[], $6::float8[]) WITH ORDINALITY
       AS claims (account_id, key, request_hash, trace_id, conversation_id, seconds, place)
 ORDER BY key, place
    ON CONFLICT (account_id, key) DO NOTHING
RETURNING key, {NOW.as_string()}
""".encode()  # noqa: S608 - a clock
