"""Seal every value again under the current secret key, after that was changed, while services run.

An agent, or a webhook endpoint, with its values is one transaction, so it may be broken off anywhere and run
again. Its row is locked: a change of an agent, which copies secrets from version to version, comes before or
after it. Rows of authorizations are locked too: a worker may just have got a token.
"""

from collections.abc import Callable
from typing import Any, LiteralString

import msgspec
from psycopg import sql

from agentchat.administration.admin_rows import record
from agentchat.directory.agent_config import seal_owner
from agentchat.directory.errors import SealBroken
from agentchat.directory.run_secrets import build_secrets_owner
from agentchat.directory.secrets import Sealer
from agentchat.directory.tool_authorizations import PENDING, SECRETS, ToolServerKey
from agentchat.runtime.postgres import Connection, Pool, acquire_connection
from agentchat.webhooks.endpoints import build_seal_owner as endpoint_owner

_SECONDS = 60.0
_PASSES = 10


class SealedTable(msgspec.Struct, frozen=True):
    """A table with sealed columns. `owner` gives what a value is bound to, by account, key and column."""

    name: LiteralString
    keys: tuple[LiteralString, ...]
    columns: tuple[LiteralString, ...]
    owner: Callable[[str, tuple[Any, ...], str], str]


_PURPOSES = {"secrets": SECRETS, "link": PENDING}

SEALED: dict[tuple[LiteralString, LiteralString], tuple[SealedTable, ...]] = {
    ("agents", "agent_id"): (
        SealedTable(
            "agent_versions",
            ("agent_id", "version"),
            ("provider_key", "fallback_keys", "mcp_headers"),
            lambda account, key, column: seal_owner(account, key[0], column),
        ),
        SealedTable(
            "mcp_authorizations",
            ("agent_id", "server"),
            ("secrets", "link"),
            lambda account, key, column: ToolServerKey(account, *key).seal_owner(_PURPOSES[column]),
        ),
    ),
    ("run_secrets", "trace_id"): (
        SealedTable(
            "run_secrets",
            ("trace_id",),
            ("sealed",),
            lambda account, key, _: build_secrets_owner(account, key[0]),
        ),
    ),
    ("webhook_endpoints", "endpoint_id"): (
        SealedTable(
            "webhook_endpoints",
            ("endpoint_id",),
            ("secret", "previous_secret"),
            lambda account, key, _: endpoint_owner(account, key[0]),
        ),
    ),
}
"""Map each table whose rows are locked, with the column of its id, to the tables of its sealed values."""


class Unopened(msgspec.Struct, frozen=True):
    """A value that no key at hand opens; `reason` says why, and nothing of the value.

    `key` is that of its row: an agent and a version or a tool server, a run, or a webhook endpoint.
    """

    account_id: str
    key: tuple[str | int, ...]
    secret: str
    reason: str


class Resealed(msgspec.Struct, kw_only=True):
    """Count the rows and their sealed values, and those sealed again; list the values that do not open."""

    rows: int = 0
    values: int = 0
    resealed: int = 0
    unopened: list[Unopened] = []


async def reseal(pool: Pool, sealer: Sealer, *, actor: str, dry_run: bool = False) -> Resealed:
    """Open each value, and seal it again if it is not under the current key of `sealer`.

    `dry_run` counts and writes nothing. It looks again until nothing is left to do: what has not been
    restarted may still seal under the old key. Raises DatabaseUnavailable; what was sealed until then stays.
    """
    resealed, found = 0, Resealed()
    for _ in range(_PASSES):
        a_pass = _Pass(pool, sealer, actor, dry_run=dry_run)
        await a_pass.run()
        found, resealed = a_pass.found, resealed + a_pass.found.resealed
        if dry_run or not found.resealed:
            break
    return msgspec.structs.replace(found, resealed=resealed)


class _Pass:
    """Go through all sealed values once."""

    def __init__(self, pool: Pool, sealer: Sealer, actor: str, *, dry_run: bool) -> None:
        self.found = Resealed()
        self._pool, self._sealer, self._actor, self._dry_run = pool, sealer, actor, dry_run

    async def run(self) -> None:
        for (parent, key), tables in SEALED.items():
            after: str | None = ""
            while after is not None:
                async with acquire_connection(self._pool, seconds=_SECONDS) as conn, conn.transaction():
                    after = await self._reseal_next(
                        conn, sql.Identifier(parent), sql.Identifier(key), tables, after
                    )

    async def _reseal_next(
        self,
        conn: Connection,
        parent: sql.Identifier,
        key: sql.Identifier,
        tables: tuple[SealedTable, ...],
        after: str,
    ) -> str | None:
        """Reseal the values of the row after `after`; return its id, or None if there is no such row."""
        query = sql.SQL(_NEXT).format(parent=parent, key=key)
        row = await (await conn.execute(query, [after])).fetchone()
        if row is None:
            return None
        id_, account_id = row
        before = self.found.resealed
        for table in tables:
            await self._reseal_table(conn, table, account_id, key, id_)
        self.found.rows += 1
        done = self.found.resealed - before
        if done and not self._dry_run:
            shown = {"row": id_, "values": done}
            await record(conn, self._actor, "reseal", "secret key", self._sealer.key_id, after=shown)
        return str(id_)

    async def _reseal_table(
        self, conn: Connection, table: SealedTable, account_id: str, key: sql.Identifier, id_: str
    ) -> None:
        own = [sql.Identifier(name) for name in table.keys]
        sealed = [sql.Identifier(name) for name in table.columns]
        query = sql.SQL("SELECT {} FROM {} WHERE {} = %s FOR NO KEY UPDATE").format(
            sql.SQL(", ").join([*own, *sealed]), sql.Identifier(table.name), key
        )
        update = sql.SQL("UPDATE {} SET {} WHERE {}").format(
            sql.Identifier(table.name),
            sql.SQL(", ").join(sql.SQL("{} = %s").format(each) for each in sealed),
            sql.SQL(" AND ").join(sql.SQL("{} = %s").format(each) for each in own),
        )
        for row in await (await conn.execute(query, [id_])).fetchall():
            row_key, values = row[: len(own)], row[len(own) :]
            renewed = [
                self._reseal_value(table, account_id, row_key, column, value)
                for column, value in zip(table.columns, values, strict=True)
            ]
            if renewed != [*values] and not self._dry_run:
                await conn.execute(update, [*renewed, *row_key])

    def _reseal_value(
        self, table: SealedTable, account_id: str, key: tuple[Any, ...], column: str, value: bytes | None
    ) -> bytes | None:
        """Return the value under the current key; the value itself if nothing is to be done."""
        if value is None:
            return None
        self.found.values += 1
        owner = table.owner(account_id, key, column)
        try:
            plain = self._sealer.open(value, owner=owner)
        except SealBroken as error:
            self.found.unopened.append(Unopened(account_id, key, column, str(error)))
            return value
        if self._sealer.is_current(value):
            return value
        self.found.resealed += 1
        return self._sealer.seal(plain, owner=owner)


_NEXT = "SELECT {key}, account_id FROM {parent} WHERE {key} > %s ORDER BY {key} LIMIT 1 FOR NO KEY UPDATE"
