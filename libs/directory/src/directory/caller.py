"""Who calls: one look-up a request takes an API key to its account, plan and agent.

Nothing is cached, so a rotated key or a changed plan counts from the next request on, on every gateway
(docs/specification.md 3).
"""

import asyncio
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
import psycopg

from contracts.ids import is_uuid
from directory.keys import hash_key
from directory.last_used import LastUsed
from directory.plans import Plan, plan_from
from runtime.kept_statement import KeptStatement
from runtime.postgres import CALL_SECONDS, DatabaseUnavailable, Pool, connection

_TOGETHER = 100
"""Look-ups in one statement: what a socket always has room for."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """`now` is the clock of Postgres at the look-up: ISO 8601 UTC with microseconds."""

    account_id: str
    plan: Plan
    key_id: str
    now: str


class AgentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's current version, as far as the door needs it. `retrieves`: it has a knowledge base."""

    agent_id: str
    version: int
    name: str
    model: str
    retrieves: bool


Found: TypeAlias = tuple[Caller, AgentSummary | None]
"""The caller behind a key, and the agent if it is an enabled one of the same account."""


class Callers:
    """Looks callers up, all that wait together, and each only behind its own arrival.

    One alone does not wait for others. `last_used` is told of the keys. Close with `aclose`, before the pool.
    """

    def __init__(self, pool: Pool, last_used: LastUsed | None = None) -> None:
        self._pool = pool
        self._last_used = last_used
        self._statement = KeptStatement(pool, _RESOLVE.format("$1", "$2"))
        self._waiting: list[_Asked] = []
        self._asking: asyncio.Task[None] | None = None

    async def resolve(self, api_key: str, agent_id: str | None) -> Found | None:
        """As the function `resolve`."""
        loop = asyncio.get_running_loop()
        asked = _Asked(hash_key(api_key), _uuid(agent_id), loop.time() + CALL_SECONDS, loop.create_future())
        self._waiting.append(asked)
        if self._asking is None or self._asking.done():
            self._asking = loop.create_task(self._ask())
        found = await asked.found
        if found is not None and self._last_used is not None:
            self._last_used.note(found[0].key_id)
        return found

    async def aclose(self) -> None:
        """Look nobody up any more."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await self._statement.aclose()

    async def _ask(self) -> None:
        """For those who wait, and then for those who came meanwhile."""
        while self._waiting:
            batch, self._waiting = self._waiting[:_TOGETHER], self._waiting[_TOGETHER:]
            overdue = asyncio.get_running_loop().call_at(batch[0].end, _expire, batch)
            try:
                found = await self._look_up(batch)
            except Exception as error:  # noqa: BLE001 - whoever asked has it raised
                found = [error] * len(batch)
            overdue.cancel()
            for asked, answer in zip(batch, found, strict=True):
                if asked.found.done():  # who asked has gone
                    continue
                if isinstance(answer, BaseException):
                    asked.found.set_exception(answer)
                else:
                    asked.found.set_result(answer)

    async def _look_up(self, batch: Sequence["_Asked"]) -> Sequence[Found | BaseException | None]:
        """In one statement; where that cannot be had, each for itself. Raises DatabaseUnavailable."""
        hashes = b",".join(rb'"\\x%b"' % asked.key_hash.hex().encode() for asked in batch)
        agents = b",".join(b"NULL" if asked.agent is None else asked.agent.encode() for asked in batch)
        try:
            rows = await self._statement.fetch([b"{%b}" % hashes, b"{%b}" % agents], batch[-1].end)
        except psycopg.Error:
            alone = (_resolve(self._pool, asked.key_hash, asked.agent, asked.end) for asked in batch)
            return await asyncio.gather(*alone, return_exceptions=True)
        found = {row[0]: _found(row) for row in rows}
        return [found.get(place) for place in range(1, len(batch) + 1)]


class _Asked(msgspec.Struct, frozen=True, eq=False):
    """A look-up until `end`, on the loop's clock."""

    key_hash: bytes
    agent: str | None
    end: float
    found: "asyncio.Future[Found | None]"


def _expire(batch: Sequence[_Asked]) -> None:
    """The time of the oldest is over; those who came later go on waiting for the same answer."""
    loop = asyncio.get_running_loop()
    for asked in batch:
        if asked.found.done():
            continue
        if asked.end > loop.time():
            loop.call_at(asked.end, _expire, batch)
            return
        asked.found.set_exception(DatabaseUnavailable("no answer from Postgres in time"))


async def resolve(pool: Pool, api_key: str, agent_id: str | None) -> Found | None:
    """What is found of `api_key` and `agent_id`, in a round trip of its own.

    None for a key that is unknown, revoked or disabled, or whose account is disabled. Raises
    DatabaseUnavailable within 3 s.
    """
    end = asyncio.get_running_loop().time() + CALL_SECONDS
    return await _resolve(pool, hash_key(api_key), _uuid(agent_id), end)


async def _resolve(pool: Pool, key_hash: bytes, agent: str | None, end: float) -> Found | None:
    async with connection(pool, seconds=end - asyncio.get_running_loop().time()) as conn:
        cursor = await conn.execute(_RESOLVE.format("%s", "%s"), [[key_hash], [agent]])
        row = await cursor.fetchone()
    return None if row is None else _found(row)


async def enabled_keys(pool: Pool, key_hashes: list[bytes]) -> frozenset[bytes]:
    """Those of `key_hashes` (`hash_key`) that `resolve` knows. Raises DatabaseUnavailable within 3 s."""
    async with connection(pool) as conn:
        cursor = await conn.execute(_ENABLED, [key_hashes])
        return frozenset(key_hash for (key_hash,) in await cursor.fetchall())


def _uuid(agent_id: str | None) -> str | None:
    """What can be looked up of what a header holds."""
    agent = agent_id.lower() if agent_id is not None else ""
    return agent if is_uuid(agent) else None


def _found(row: tuple[Any, ...]) -> Found:
    _, account_id, key_id, now = row[:4]
    caller = Caller(account_id=account_id, plan=plan_from(row[4:10]), key_id=key_id, now=now)
    agent_id, version, name, model, retrieves = row[10:]
    if agent_id is None:
        return caller, None
    return caller, AgentSummary(
        agent_id=agent_id, version=version, name=name, model=model, retrieves=retrieves
    )


_RESOLVE = """
SELECT asked.place, a.account_id, k.key_id,
       to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
       p.name, p.requests_per_minute, p.concurrent_runs, p.tokens_per_month,
       p.form2_streaming, p.max_message_bytes,
       g.agent_id, v.version, v.name, v.model, v.retrieves
FROM unnest({}::bytea[], {}::text[]) WITH ORDINALITY AS asked (key_hash, agent, place)
JOIN api_keys k ON k.key_hash = asked.key_hash
JOIN accounts a ON a.account_id = k.account_id
JOIN plans p ON p.name = a.plan
LEFT JOIN agents g
    ON g.agent_id = asked.agent AND g.account_id = a.account_id AND g.disabled_at IS NULL
LEFT JOIN agent_versions v ON v.agent_id = g.agent_id AND v.version = g.current_version
WHERE k.revoked_at IS NULL AND k.disabled_at IS NULL AND a.disabled_at IS NULL
"""

_ENABLED = """
SELECT k.key_hash FROM api_keys k JOIN accounts a ON a.account_id = k.account_id
WHERE k.key_hash = ANY(%s) AND k.revoked_at IS NULL AND k.disabled_at IS NULL AND a.disabled_at IS NULL
"""
