"""The rows of an account outside the log, from one database to another in one transaction.

What is not here stays: rate counters and leases, deliveries of webhooks that are due, the audit log, and what
tool calls under way have noted. Read models are made of the conversations that have been imported.
"""

from collections.abc import Collection, Mapping

import msgspec
from psycopg import sql

from directory.secrets import Sealer
from ops.errors import StackError
from runtime.postgres import Connection

_OF_ACCOUNT = "account_id = {account}"
_OF_AGENTS = "agent_id IN (SELECT agent_id FROM agents WHERE account_id = {account})"
_OF_BASES = (
    "knowledge_base_id IN (SELECT knowledge_base_id FROM knowledge_bases WHERE account_id = {account})"
)


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a table, and the columns that are another thing in the other cell.

    `changed` are expressions over `incoming`, which has the rows, and what `joined` adds.
    """

    table: str
    where: str = _OF_ACCOUNT
    changed: Mapping[str, str] = {}
    joined: str = ""


# The mark of its knowledge base is one of a chunk's words, and its number is the database's own.
_WORDS = "ts_delete(incoming.words, '#' || there.number) || array_to_tsvector(ARRAY['#' || here.number])"

ROWS = (
    Rows(table="plans", where="name = (SELECT plan FROM accounts WHERE account_id = {account})"),
    Rows(table="accounts", changed={"disabled_at": "NULL"}),
    Rows(table="api_keys"),
    Rows(table="agents"),
    Rows(table="agent_versions", where=_OF_AGENTS),
    Rows(table="mcp_authorizations", where=_OF_AGENTS),
    Rows(table="knowledge_bases"),
    Rows(table="documents", where=_OF_BASES),
    Rows(
        table="chunks",
        where=_OF_BASES,
        changed={"words": _WORDS},
        joined="JOIN incoming_knowledge_bases there USING (knowledge_base_id)"
        " JOIN knowledge_bases here USING (knowledge_base_id)",
    ),
    Rows(table="chunk_embeddings", where=_OF_BASES),
    # What has happened before is delivered by the cell where it happened.
    Rows(
        table="webhook_endpoints",
        changed={
            "begins_after": "settled_position()",
            "stopped_at": "CASE WHEN incoming.disabled_at IS NOT NULL THEN settled_position() END",
            "leased_until": "NULL",
        },
    ),
    Rows(table="judged_runs", changed={"due_at": "CASE WHEN incoming.due_at IS NOT NULL THEN now() END"}),
    Rows(
        table="run_scores",
        where="trace_id IN (SELECT trace_id FROM judged_runs WHERE account_id = {account})",
    ),
    Rows(table="idempotency_keys"),
    Rows(table="compacted_usage"),
)
"""In the order of their references."""

_CURSORS = """
INSERT INTO webhook_cursors (cursor_id, endpoint_id, position)
SELECT endpoint_id, endpoint_id, begins_after FROM webhook_endpoints WHERE account_id = %s
"""
"""By which release 0.9.0 shows an endpoint."""

_SEALED = """
SELECT DISTINCT substr(value, 2, 4) FROM (
    SELECT unnest(ARRAY[provider_key, mcp_headers]) AS value, account_id
      FROM agent_versions JOIN agents USING (agent_id)
     UNION ALL
    SELECT secrets, account_id FROM mcp_authorizations JOIN agents USING (agent_id)
     UNION ALL
    SELECT unnest(ARRAY[secret, previous_secret]), account_id FROM webhook_endpoints
) AS sealed WHERE account_id = %s AND value IS NOT NULL
"""


_COLUMNS = """
SELECT attname, attidentity <> '' FROM pg_attribute
 WHERE attrelid = to_regclass('public.' || %s) AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
"""


async def check_keys(source: Connection, account_id: str, sealer: Sealer) -> None:
    """Raises StackError where the other cell cannot open a secret of the account's."""
    rows = await (await source.execute(_SEALED, [account_id])).fetchall()
    if unknown := {bytes(key_id) for (key_id,) in rows} - set(sealer.key_ids):
        raise StackError(
            f"the key {min(unknown).hex()} that seals secrets of the account is not one of the other cell's "
            "(AGENTCHAT_SECRET_KEY, AGENTCHAT_SECRET_KEY_PREVIOUS): add it there as a previous one"
        )


async def copy_rows(source: Connection, target: Connection, account_id: str) -> dict[str, int]:
    """Copy all, in a transaction of the caller's on `target`; returns how many of each table.

    A plan of the name that is there already stays as it is. Raises StackError where the tables differ,
    psycopg.Error.
    """
    counts = {}
    for rows in ROWS:
        columns = await _columns(source, rows.table)
        if lacking := columns.keys() - (await _columns(target, rows.table)).keys():
            raise StackError(
                f"{rows.table} has no {', '.join(sorted(lacking))} in the other cell: upgrade it first"
            )
        if columns:
            await _stage(source, target, rows, columns, account_id)
            counts[rows.table] = await _insert(target, rows, [*columns])
    await target.execute(_CURSORS, [account_id])
    return counts


async def _columns(conn: Connection, table: str) -> dict[str, bool]:
    """The columns that have values of their own, none where there is no such table; whether each is
    numbered by the database.
    """
    cursor = await conn.execute(_COLUMNS, [table])
    return dict(await cursor.fetchall())


async def _stage(
    source: Connection, target: Connection, rows: Rows, columns: Collection[str], account_id: str
) -> None:
    """Copy the rows as they are into a table that goes with the transaction."""
    table, staged = sql.Identifier(rows.table), _staged(rows)
    listed = sql.SQL(", ").join(map(sql.Identifier, columns))
    where = sql.SQL(rows.where).format(account=sql.Literal(account_id))
    read = sql.SQL("COPY (SELECT {} FROM {} WHERE {}) TO STDOUT (FORMAT binary)").format(listed, table, where)
    write = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(staged, listed)
    await target.execute(
        sql.SQL("CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT {} FROM {} LIMIT 0").format(
            staged, listed, table
        )
    )
    async with (
        source.cursor() as reader,
        target.cursor() as writer,
        reader.copy(read) as read_rows,
        writer.copy(write) as written,
    ):
        async for piece in read_rows:
            await written.write(piece)


async def _insert(target: Connection, rows: Rows, columns: list[str]) -> int:
    own = await _columns(target, rows.table)
    kept = [name for name in columns if not own[name]]
    values = [
        sql.SQL(rows.changed[name])
        if name in rows.changed
        else sql.SQL("incoming.{}").format(sql.Identifier(name))
        for name in kept
    ]
    statement = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} AS incoming {} {}").format(
        sql.Identifier(rows.table),
        sql.SQL(", ").join(map(sql.Identifier, kept)),
        sql.SQL(", ").join(values),
        _staged(rows),
        sql.SQL(rows.joined),
        sql.SQL("ON CONFLICT DO NOTHING" if rows.table == "plans" else ""),
    )
    return (await target.execute(statement)).rowcount


def _staged(rows: Rows) -> sql.Identifier:
    return sql.Identifier(f"incoming_{rows.table}")
