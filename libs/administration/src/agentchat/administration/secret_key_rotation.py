"""Seal every value again under the current secret key, after that was changed, while services run.

A portion of a table is one transaction, so it may be broken off anywhere and run again. Its rows are locked,
and the agents that they belong to: a change of an agent, which copies secrets from version to version, comes
before or after it.
"""

from collections.abc import Callable
from typing import Any, LiteralString

import msgspec
from psycopg import sql

from agentchat.administration.audit_rows import record
from agentchat.directory.agent_config import seal_owner
from agentchat.directory.errors import SealBroken
from agentchat.directory.run_secrets import build_secrets_owner
from agentchat.directory.secret_encryption import Sealer
from agentchat.directory.tool_authorizations import PENDING, SECRETS, ToolServerKey
from agentchat.runtime.postgres import Connection, Pool, acquire_connection
from agentchat.webhooks.endpoints import build_seal_owner as endpoint_owner

_SECONDS = 60.0
_PASSES = 10
_PORTION = 500
_OF_AGENTS: LiteralString = "JOIN agents USING (agent_id)"


class SealedTable(msgspec.Struct, frozen=True):
    """A table with sealed columns, and the `join` that gives the rows their account.

    `owner` gives what a value is bound to, by account, key and column.
    """

    name: LiteralString
    keys: tuple[LiteralString, ...]
    columns: tuple[LiteralString, ...]
    owner: Callable[[str, tuple[Any, ...], str], str]
    join: LiteralString = ""


_PURPOSES = {"secrets": SECRETS, "link": PENDING}

SEALED = (
    SealedTable(
        "agent_versions",
        ("agent_id", "version"),
        ("provider_key", "fallback_keys", "mcp_headers"),
        lambda account, key, column: seal_owner(account, key[0], column),
        _OF_AGENTS,
    ),
    SealedTable(
        "mcp_authorizations",
        ("agent_id", "server"),
        ("secrets", "link"),
        lambda account, key, column: ToolServerKey(account, *key).seal_owner(_PURPOSES[column]),
        _OF_AGENTS,
    ),
    SealedTable(
        "run_secrets",
        ("trace_id",),
        ("sealed",),
        lambda account, key, _: build_secrets_owner(account, key[0]),
    ),
    SealedTable(
        "webhook_endpoints",
        ("endpoint_id",),
        ("secret", "previous_secret"),
        lambda account, key, _: endpoint_owner(account, key[0]),
    ),
)


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
        found = Resealed()
        for table in SEALED:
            after: tuple[Any, ...] | None = ()
            while after is not None:
                async with acquire_connection(pool, seconds=_SECONDS) as conn, conn.transaction():
                    before = found.resealed
                    after = await _reseal_portion(conn, sealer, table, after, found, dry_run=dry_run)
                    if found.resealed > before and not dry_run:
                        shown = {"table": table.name, "values": found.resealed - before}
                        await record(conn, actor, "reseal", "secret key", sealer.key_id, after=shown)
        resealed += found.resealed
        if dry_run or not found.resealed:
            break
    return msgspec.structs.replace(found, resealed=resealed)


async def _reseal_portion(
    conn: Connection,
    sealer: Sealer,
    table: SealedTable,
    after: tuple[Any, ...],
    found: Resealed,
    *,
    dry_run: bool,
) -> tuple[Any, ...] | None:
    """Reseal the rows after the key `after`, and count them; return the last key, None at the end."""
    keys, columns = (sql.SQL(", ").join(map(sql.Identifier, each)) for each in (table.keys, table.columns))
    place = sql.SQL(", ").join([sql.Placeholder()] * len(table.keys))
    name, beyond = sql.Identifier(table.name), sql.SQL("WHERE ({}) > ({})" if after else "")
    query = sql.SQL(_ROWS).format(keys, columns, name, sql.SQL(table.join), beyond.format(keys, place), keys)
    update = sql.SQL("UPDATE {} SET ({}) = ROW ({}) WHERE ({}) = ({})").format(
        name, columns, sql.SQL(", ").join([sql.Placeholder()] * len(table.columns)), keys, place
    )
    rows = await (await conn.execute(query, [*after, _PORTION])).fetchall()
    for account_id, *row in rows:
        key, values = tuple(row[: len(table.keys)]), row[len(table.keys) :]
        renewed = [
            _reseal_value(sealer, table, account_id, key, column, value, found)
            for column, value in zip(table.columns, values, strict=True)
        ]
        if renewed != values and not dry_run:
            await conn.execute(update, [*renewed, *key])
    found.rows += len(rows)
    return tuple(rows[-1][1 : 1 + len(table.keys)]) if len(rows) == _PORTION else None


def _reseal_value(
    sealer: Sealer,
    table: SealedTable,
    account_id: str,
    key: tuple[Any, ...],
    column: str,
    value: bytes | None,
    found: Resealed,
) -> bytes | None:
    """Return the value under the current key; the value itself if nothing is to be done."""
    if value is None:
        return None
    found.values += 1
    owner = table.owner(account_id, key, column)
    try:
        plain = sealer.open(value, owner=owner)
    except SealBroken as error:
        found.unopened.append(Unopened(account_id, key, column, str(error)))
        return value
    if sealer.is_current(value):
        return value
    found.resealed += 1
    return sealer.seal(plain, owner=owner)


_ROWS = "SELECT account_id, {}, {} FROM {} {} {} ORDER BY {} LIMIT %s FOR NO KEY UPDATE"
