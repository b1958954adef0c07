"""Generate and hash API keys, and look one up with its account, plan and agent for each request.

A key has a prefix and 256 random bits. Only its SHA-256 is stored: random bits need no slow hash. No look-up
is cached, so a rotated key or a changed plan takes effect with the next request on every gateway (interface
specification, section 3). A rotation may leave the old key valid for some days. The time of a key's last use
is written apart from the requests, at most once a minute for each key.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from agentchat.contracts.ids import is_uuid
from agentchat.directory.plans import COLUMNS, Plan
from agentchat.runtime import logs
from agentchat.runtime.batched_statement import BatchedStatement, Form, Rows, index_rows
from agentchat.runtime.postgres import DatabaseUnavailable, Pool, acquire_connection
from agentchat.runtime.retry_loops import repeat

WRITE_SECONDS = 15.0
PREFIX = "sk-ac-"

Scope = Literal["chat", "read", "manage", "approve"]
"""The rights of a key: send messages and work with their runs; read and list; delete, and manage users and
webhooks; decide about tool calls.
"""

SCOPES: tuple[Scope, ...] = get_args(Scope)


def generate_api_key() -> str:
    """Return a new key: `sk-ac-` and 43 URL-safe characters. It is shown once and not stored."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_key(key: str) -> bytes:
    """Return the hash that the table holds. Any text has one, so odd headers never raise."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def get_last4(key: str) -> str:
    """Return the last four characters, by which people recognise a key."""
    return key[-4:]


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of an API key, and the end user that a request names, if it names one.

    `now` is the clock of Postgres: ISO 8601 UTC with microseconds. With `requires_user` the account refuses
    requests that name no user. `scopes` are the key's. The budgets are the most that the account, and each of
    its users, may spend in a month; None is no limit.
    """

    account_id: str
    plan: Plan
    key_id: str
    now: str
    requires_user: bool = False
    scopes: Sequence[Scope] = SCOPES
    user_id: str | None = None
    monthly_budget: float | None = None
    user_monthly_budget: float | None = None


ResolvedCaller: TypeAlias = tuple[Caller, str | None]
"""The owner of a key, and the agent's id if it is enabled and belongs to the same account."""


class _KeyLookup(msgspec.Struct, frozen=True):
    key_hash: bytes
    agent: str | None


class Callers:
    """Resolves API keys; concurrent calls share one statement.

    The statement begins after the last of them arrived. Used keys are added to `last_used`. Close it before
    the pool.
    """

    def __init__(self, pool: Pool, last_used: "KeyUseRecorder | None" = None) -> None:
        self._last_used = last_used
        self._statement = BatchedStatement(pool, Form(_RESOLVE, _build_parameters, _read_results))

    async def resolve(self, api_key: str, agent_id: str | None) -> ResolvedCaller | None:
        """Return the owner of a key and the agent; None if the key is not valid.

        Raises:
            DatabaseUnavailable: If Postgres does not answer.
        """
        found = await self._statement.call(_KeyLookup(hash_key(api_key), _normalize_id(agent_id)))
        if found is not None and self._last_used is not None:
            self._last_used.add(found[0].key_id)
        return found

    async def aclose(self) -> None:
        """Wait for statements under way, then refuse new ones."""
        await self._statement.aclose()


def _build_parameters(batch: Sequence[_KeyLookup]) -> Sequence[object]:
    return [lookup.key_hash for lookup in batch], [lookup.agent for lookup in batch]


def _read_results(batch: Sequence[_KeyLookup], rows: Rows) -> Sequence[ResolvedCaller | None]:
    found = index_rows(rows)
    return [_read_row(found[place]) if place in found else None for place in range(len(batch))]


def _normalize_id(agent_id: str | None) -> str | None:
    agent = agent_id.lower() if agent_id is not None else ""
    return agent if is_uuid(agent) else None


def _read_row(row: tuple[Any, ...]) -> ResolvedCaller:
    caller = Caller(
        account_id=row[2],
        key_id=row[3],
        now=row[4],
        requires_user=row[5],
        scopes=row[6],
        monthly_budget=row[7],
        user_monthly_budget=row[8],
        plan=Plan(*row[9:]),
    )
    return caller, row[1]


async def load_account_caller(pool: Pool, account_id: str, key_id: str) -> Caller | None:
    """Return the caller that acts for an account without a key; `key_id` is the name of what acts.

    None for an unknown or disabled account. Raises DatabaseUnavailable.
    """
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(_OF_ACCOUNT, [key_id, list(SCOPES), account_id])).fetchone()
    return None if row is None else _read_row((0, None, *row))[0]


class KeyUseRecorder:
    """Records when API keys were last used, in batches: `async with KeyUseRecorder(pool)`."""

    def __init__(self, pool: Pool, *, every: float = WRITE_SECONDS) -> None:
        self._pool = pool
        self._every = every
        self._used: set[str] = set()
        self._log = logs.get_logger("directory")
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "KeyUseRecorder":
        writing = repeat(self.write, self._every, (), log=self._log, problem="last_used_not_written")
        self._task = asyncio.create_task(writing)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self.write()

    def add(self, key_id: str) -> None:
        """Note that a key was used; the next `write` stores it."""
        self._used.add(key_id)

    async def write(self) -> None:
        """Write the noted keys to the database, except those written within the last minute."""
        used, self._used = self._used, set()
        if not used:
            return
        try:
            async with acquire_connection(self._pool) as conn:
                await conn.execute(
                    "UPDATE api_keys SET last_used_at = now() WHERE key_id = ANY(%s) "
                    "AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')",
                    [sorted(used)],
                )
        except DatabaseUnavailable as error:
            self._log.warning("last_used_not_written", keys=len(used), reason=str(error))


_NOW = """to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""

_OF_ACCOUNT = f"""
SELECT a.account_id, %s, {_NOW},
       a.require_user, %s::text[], a.monthly_budget::float8, a.user_monthly_budget::float8, {COLUMNS}
FROM accounts a JOIN plans p ON p.name = a.plan WHERE a.account_id = %s AND a.disabled_at IS NULL
"""  # noqa: S608 - constants

_RESOLVE = f"""
SELECT asked.place, g.agent_id, a.account_id, k.key_id, {_NOW},
       a.require_user, k.scopes, a.monthly_budget::float8, a.user_monthly_budget::float8, {COLUMNS}
FROM unnest($1::bytea[], $2::text[]) WITH ORDINALITY AS asked (key_hash, agent, place)
JOIN api_keys k ON k.key_hash = asked.key_hash
    OR (k.old_key_hash = asked.key_hash AND k.old_key_until > clock_timestamp())
JOIN accounts a ON a.account_id = k.account_id
JOIN plans p ON p.name = a.plan
LEFT JOIN agents g
    ON g.agent_id = asked.agent AND g.account_id = a.account_id AND g.disabled_at IS NULL
WHERE k.revoked_at IS NULL AND k.disabled_at IS NULL AND a.disabled_at IS NULL
""".encode()  # noqa: S608 - constants
