"""Every sealed value anew under the current secret key, after that was changed, while services run and write.

A batch of agents is one transaction, so it may be broken off anywhere and run again. The rows of its agents
are locked: a change of one of them, which copies secrets from version to version, comes before or after it.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Literal, TypeAlias

import msgspec

from administration.reseal_webhooks import UnopenedEndpoint, reseal_endpoints
from administration.rows import record
from directory.agents import seal_owner
from directory.errors import SealBroken
from directory.secrets import Sealer
from directory.tool_authorizations import PENDING, SECRETS, Place
from runtime.postgres import Connection, Pool, connection

Secret: TypeAlias = Literal["provider_key", "mcp_headers", "mcp_authorization", "mcp_authorization_link"]

_SECONDS = 30.0
_AGENTS = 20
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


class Resealed(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked at (`agents`, webhook `endpoints`, sealed `values`), sealed anew, and left."""

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
    """Open each value of agents' versions and webhook endpoints, and seal anew what is not under the current
    key of `sealer`.

    `dry_run` counts and writes nothing. `progress` gets agents done and agents in all, after each batch. It
    looks again until nothing is left to do: what has not been restarted may still seal under the old key.
    Raises DatabaseUnavailable; what was sealed until then stays so.
    """
    total = Counter[str]()
    while True:
        one_pass = Counter[str]()
        unopened: list[Unopened] = []
        unopened_endpoints: list[UnopenedEndpoint] = []
        async for batch in _batches(pool, sealer, actor, dry_run=dry_run):
            unopened += batch.unopened
            one_pass.update(agents=batch.agents, values=batch.values, resealed=batch.resealed)
            if progress is not None and total["passes"] == 0:
                progress(one_pass["agents"], await _count(pool))
        async for found in reseal_endpoints(pool, sealer, actor=actor, dry_run=dry_run):
            unopened_endpoints += found.unopened
            one_pass.update(endpoints=found.endpoints, values=found.values, resealed=found.resealed)
        total.update(resealed=one_pass["resealed"], passes=1)
        if dry_run or one_pass["resealed"] == 0 or total["passes"] == _PASSES:
            return Resealed(
                agents=one_pass["agents"],
                values=one_pass["values"],
                resealed=total["resealed"],
                unopened=tuple(unopened),
                endpoints=one_pass["endpoints"],
                unopened_endpoints=tuple(unopened_endpoints),
            )


async def _batches(pool: Pool, sealer: Sealer, actor: str, *, dry_run: bool) -> AsyncIterator[Resealed]:
    """All agents in the order of their ids, each batch committed as it is given."""
    after = ""
    while True:
        async with connection(pool, seconds=_SECONDS) as conn, conn.transaction():
            agents = await _locked(conn, after)
            if not agents:
                return
            work = _Batch(conn, sealer, agents, dry_run=dry_run)
            done = await work.run()
            if done.resealed and not dry_run:
                shown = {"agents": done.agents, "values": done.resealed}
                await record(conn, actor, "reseal", "secret key", sealer.key_id, after=shown)
        yield done
        after = next(reversed(agents))


class _Batch:
    """Some agents with their accounts, their rows locked by the open transaction of `conn`."""

    def __init__(self, conn: Connection, sealer: Sealer, agents: dict[str, str], *, dry_run: bool) -> None:
        self._conn = conn
        self._sealer = sealer
        self._agents = agents
        self._dry_run = dry_run
        self._unopened: list[Unopened] = []
        self._counts = Counter[str]()

    async def run(self) -> Resealed:
        """A portion of versions at a time, so that no statement and no pause between two is long."""
        after = ("", 0)
        while rows := await self._versions(after):
            for agent_id, version, key, headers in rows:
                new_key = self._anew(agent_id, version, "provider_key", key)
                new_headers = self._anew(agent_id, version, "mcp_headers", headers)
                if not self._dry_run and (new_key is not key or new_headers is not headers):
                    await self._conn.execute(_UPDATE, [new_key, new_headers, agent_id, version])
            after = rows[-1][:2]
        await self._authorizations()
        return Resealed(
            agents=len(self._agents),
            values=self._counts["values"],
            resealed=self._counts["resealed"],
            unopened=tuple(self._unopened),
        )

    async def _authorizations(self) -> None:
        """Their rows are locked: a worker that has got a token meanwhile stores it before or after."""
        cursor = await self._conn.execute(_AUTHORIZATIONS, [list(self._agents)])
        for agent_id, server, secrets, link in await cursor.fetchall():
            place = Place(self._agents[agent_id], agent_id, server)
            new_secrets = self._opened_anew(agent_id, 0, SECRETS, secrets, place.owner(SECRETS))
            new_link = self._opened_anew(agent_id, 0, PENDING, link, place.owner(PENDING))
            if not self._dry_run and (new_secrets is not secrets or new_link is not link):
                await self._conn.execute(_UPDATE_AUTHORIZATION, [new_secrets, new_link, agent_id, server])

    async def _versions(self, after: tuple[str, int]) -> list[tuple[str, int, bytes | None, bytes | None]]:
        asked = {"agents": list(self._agents), "agent": after[0], "version": after[1], "limit": _VERSIONS}
        return await (await self._conn.execute(_STORED, asked)).fetchall()

    def _anew(self, agent_id: str, version: int, secret: Secret, sealed: bytes | None) -> bytes | None:
        owner = seal_owner(self._agents[agent_id], agent_id, secret)
        return self._opened_anew(agent_id, version, secret, sealed, owner)

    def _opened_anew(
        self, agent_id: str, version: int, secret: Secret, sealed: bytes | None, owner: str
    ) -> bytes | None:
        """The value under the current key; the very same bytes where nothing is to be done."""
        if sealed is None:
            return None
        self._counts["values"] += 1
        try:
            plain = self._sealer.open(sealed, owner=owner)
        except SealBroken as error:
            found = Unopened(self._agents[agent_id], agent_id, version, secret, str(error))
            self._unopened.append(found)
            return sealed
        if self._sealer.is_current(sealed):
            return sealed
        self._counts["resealed"] += 1
        return self._sealer.seal(plain, owner=owner)


async def _locked(conn: Connection, after: str) -> dict[str, str]:
    """The next agents, each with its account; in one order, so that two who seal only wait for each other."""
    cursor = await conn.execute(
        "SELECT agent_id, account_id FROM agents WHERE agent_id > %s ORDER BY agent_id LIMIT %s "
        "FOR NO KEY UPDATE",
        [after, _AGENTS],
    )
    return dict(await cursor.fetchall())


async def _count(pool: Pool) -> int:
    async with connection(pool) as conn:
        row = await (await conn.execute("SELECT count(*) FROM agents")).fetchone()
    return row[0] if row else 0


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

_UPDATE = """
UPDATE agent_versions SET provider_key = %s, mcp_headers = %s WHERE agent_id = %s AND version = %s
"""
