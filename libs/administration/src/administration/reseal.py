"""Seals every value again under the current secret key, after that was changed, while services run.

A batch of agents or of webhook endpoints is one transaction, so it may be broken off anywhere and run again.
Their rows are locked: a change of an agent, which copies secrets from version to version, comes before or
after it.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal, LiteralString, TypeAlias

import msgspec

from administration.admin_rows import record
from directory.agents import seal_owner
from directory.errors import SealBroken
from directory.secrets import Sealer
from directory.tool_authorizations import PENDING, SECRETS, ServerPlace
from runtime.postgres import Connection, Pool, connection
from webhooks.endpoints import seal_owner as endpoint_owner

Secret: TypeAlias = Literal["provider_key", "mcp_headers", "mcp_authorization", "mcp_authorization_link"]

_SECONDS = 30.0
_BATCH = 20
_VERSIONS = 200
_PASSES = 10


class Unopened(msgspec.Struct, frozen=True):
    """A value that no key at hand opens; `reason` says why, and nothing of the value.

    `version` is 0 for what belongs to no version: how the agent is authorised at a tool server.
    """

    account_id: str
    agent_id: str
    version: int
    secret: Secret
    reason: str


class UnopenedEndpoint(msgspec.Struct, frozen=True):
    """A webhook endpoint's secret that no key at hand opens, as above."""

    account_id: str
    endpoint_id: str
    reason: str


class Resealed(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked at (`agents`, webhook `endpoints`, sealed `values`), sealed again, and left."""

    agents: int
    values: int
    resealed: int
    unopened: tuple[Unopened, ...] = ()
    endpoints: int = 0
    unopened_endpoints: tuple[UnopenedEndpoint, ...] = ()


async def reseal(
    pool: Pool,
    sealer: Sealer,
    *,
    actor: str,
    dry_run: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Resealed:
    """Open each value of agents' versions and webhook endpoints, and seal again what is not under the current
    key of `sealer`.

    `dry_run` counts and writes nothing. `progress` gets agents done and agents in all, after each batch. It
    looks again until nothing is left to do: what has not been restarted may still seal under the old key.
    Raises DatabaseUnavailable; what was sealed until then stays so.
    """
    passes = resealed = 0
    while True:
        found = _Pass(pool, sealer, actor, dry_run=dry_run)
        async for _ in found.batches("agents", _AGENTS, found.agents):
            if progress is not None and not passes:
                progress(found.counts["agents"], await _count(pool))
        async for _ in found.batches("webhook_endpoints", _ENDPOINTS, found.endpoints):
            continue
        passes, resealed = passes + 1, resealed + found.counts["resealed"]
        if dry_run or not found.counts["resealed"] or passes == _PASSES:
            return Resealed(
                agents=found.counts["agents"],
                values=found.counts["values"],
                resealed=resealed,
                unopened=tuple(found.unopened),
                endpoints=found.counts["webhook_endpoints"],
                unopened_endpoints=tuple(found.unopened_endpoints),
            )


class _Pass:
    """One look at all of them."""

    def __init__(self, pool: Pool, sealer: Sealer, actor: str, *, dry_run: bool) -> None:
        self.counts = Counter[str]()
        self.unopened: list[Unopened] = []
        self.unopened_endpoints: list[UnopenedEndpoint] = []
        self._pool = pool
        self._sealer = sealer
        self._actor = actor
        self._dry_run = dry_run

    async def batches(
        self, kind: str, locked: LiteralString, seal: Callable[[Connection, list[Any]], Awaitable[None]]
    ) -> AsyncIterator[None]:
        """All rows in the order of their ids, each batch committed when it is given.

        In one order, so that two who seal only wait for each other.
        """
        after = ""
        while True:
            async with connection(self._pool, seconds=_SECONDS) as conn, conn.transaction():
                rows = await (await conn.execute(locked, [after, _BATCH])).fetchall()
                if not rows:
                    return
                before = self.counts.copy()
                self.counts[kind] += len(rows)
                await seal(conn, rows)
                done = self.counts - before
                if done["resealed"] and not self._dry_run:
                    shown = {name: done[name] for name in (kind, "values")}
                    await record(conn, self._actor, "reseal", "secret key", self._sealer.key_id, after=shown)
            yield
            after = rows[-1][0]

    async def agents(self, conn: Connection, rows: list[tuple[str, str]]) -> None:
        """Their versions, a portion at a time, so that no statement and no pause between two is long.

        The rows of authorizations are locked: a worker that has got a token meanwhile stores it before or
        after.
        """
        accounts = dict(rows)

        def left(agent_id: str, version: int, secret: Secret) -> Callable[[str], None]:
            return lambda why: self.unopened.append(
                Unopened(accounts[agent_id], agent_id, version, secret, why)
            )

        after: tuple[str, int] = ("", 0)
        while versions := await self._versions(conn, list(accounts), after):
            for agent_id, version, key, headers in versions:
                names: tuple[Secret, Secret] = ("provider_key", "mcp_headers")
                values = [
                    (value, seal_owner(accounts[agent_id], agent_id, name), left(agent_id, version, name))
                    for name, value in zip(names, (key, headers), strict=True)
                ]
                await self._row(conn, _UPDATE_VERSION, values, agent_id, version)
            after = versions[-1][:2]
        cursor = await conn.execute(_AUTHORIZATIONS, [list(accounts)])
        for agent_id, server, secrets, link in await cursor.fetchall():
            place = ServerPlace(accounts[agent_id], agent_id, server)
            values = [
                (secrets, place.owner(SECRETS), left(agent_id, 0, SECRETS)),
                (link, place.owner(PENDING), left(agent_id, 0, PENDING)),
            ]
            await self._row(conn, _UPDATE_AUTHORIZATION, values, agent_id, server)

    async def endpoints(self, conn: Connection, rows: list[tuple[str, str, bytes, bytes | None]]) -> None:
        """The secret of each, and the one before."""
        for endpoint_id, account_id, *sealed in rows:
            owner, reasons = endpoint_owner(account_id, endpoint_id), list[str]()
            values = [(value, owner, reasons.append) for value in sealed]
            await self._row(conn, _UPDATE_ENDPOINT, values, endpoint_id)
            self.unopened_endpoints += (
                UnopenedEndpoint(account_id, endpoint_id, reason) for reason in reasons[:1]
            )

    async def _versions(
        self, conn: Connection, agents: list[str], after: tuple[str, int]
    ) -> list[tuple[str, int, bytes | None, bytes | None]]:
        asked = {"agents": agents, "agent": after[0], "version": after[1], "limit": _VERSIONS}
        return await (await conn.execute(_STORED, asked)).fetchall()

    async def _row(
        self,
        conn: Connection,
        update: LiteralString,
        values: list[tuple[bytes | None, str, Callable[[str], None]]],
        *key: str | int,
    ) -> None:
        new = [self._resealed(*value) for value in values]
        if not self._dry_run and any(one is not old for one, (old, *_) in zip(new, values, strict=True)):
            await conn.execute(update, [*new, *key])

    def _resealed(self, sealed: bytes | None, owner: str, left: Callable[[str], None]) -> bytes | None:
        """The value under the current key; the very same bytes where nothing is to be done."""
        if sealed is None:
            return None
        self.counts["values"] += 1
        try:
            plain = self._sealer.open(sealed, owner=owner)
        except SealBroken as error:
            left(str(error))
            return sealed
        if self._sealer.is_current(sealed):
            return sealed
        self.counts["resealed"] += 1
        return self._sealer.seal(plain, owner=owner)


async def _count(pool: Pool) -> int:
    async with connection(pool) as conn:
        row = await (await conn.execute("SELECT count(*) FROM agents")).fetchone()
    return row[0] if row else 0


_AGENTS = """
SELECT agent_id, account_id FROM agents WHERE agent_id > %s ORDER BY agent_id LIMIT %s FOR NO KEY UPDATE
"""

_ENDPOINTS = """
SELECT endpoint_id, account_id, secret, previous_secret FROM webhook_endpoints
 WHERE endpoint_id > %s ORDER BY endpoint_id LIMIT %s FOR NO KEY UPDATE
"""

_STORED = """
SELECT agent_id, version, provider_key, mcp_headers FROM agent_versions
 WHERE agent_id = ANY(%(agents)s) AND (agent_id, version) > (%(agent)s, %(version)s)
   AND (provider_key IS NOT NULL OR mcp_headers IS NOT NULL)
 ORDER BY agent_id, version LIMIT %(limit)s
"""

_AUTHORIZATIONS = """
SELECT agent_id, server, secrets, link FROM mcp_authorizations WHERE agent_id = ANY(%s)
 ORDER BY agent_id, server FOR UPDATE
"""

_UPDATE_AUTHORIZATION = """
UPDATE mcp_authorizations SET secrets = %s, link = %s WHERE agent_id = %s AND server = %s
"""

_UPDATE_VERSION = """
UPDATE agent_versions SET provider_key = %s, mcp_headers = %s WHERE agent_id = %s AND version = %s
"""

_UPDATE_ENDPOINT = "UPDATE webhook_endpoints SET secret = %s, previous_secret = %s WHERE endpoint_id = %s"
