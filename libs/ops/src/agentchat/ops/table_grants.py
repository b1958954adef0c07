"""Grant each service its rights in the database, table by table, after every migration.

No service can change or remove a stored event, except by `remove_content`: once ConversationErased is
appended that removes the events before it, and weeks later that event itself; and the words of feedback on
behalf of an end user who is being deleted.
"""

from typing import LiteralString

from psycopg import sql

from agentchat.runtime.database_roles import OPERATOR, SERVICE_ROLE, SERVICES, Service, get_role
from agentchat.runtime.migrations import open_migration
from agentchat.runtime.postgres import Connection

_READ: LiteralString = "SELECT"
_WRITE: LiteralString = "SELECT, INSERT, UPDATE, DELETE"
_REFILL: LiteralString = "SELECT, INSERT, UPDATE, DELETE, TRUNCATE"

_TABLES: dict[str, dict[Service, LiteralString]] = {
    "schema_migrations": dict.fromkeys(SERVICES, _READ),
    # The log.
    "conversation_events": {
        "gateway": _READ,
        "orchestrator": _READ,
        "projector": _READ,
    },
    "open_run_traces": {"tool_runner": _READ, "projector": _READ},  # a view
    "run_secrets": {
        "gateway": "SELECT, INSERT, UPDATE",
        "tool_runner": _READ,
        "projector": "SELECT, DELETE",
    },
    "readable_conversation_events": {  # a view: without the rows of erased conversations
        "gateway": _READ,
        "orchestrator": _READ,
        "projector": _READ,
    },
    "erasures": {"gateway": _READ, "projector": "SELECT, INSERT, UPDATE, DELETE"},
    # Runs.
    "run_leases": {"gateway": _READ, "orchestrator": _WRITE, "projector": _WRITE},
    "waiting_line": {"gateway": _READ, "orchestrator": _WRITE, "projector": _WRITE},
    "run_requests": {"projector": _WRITE},
    "idempotency_keys": {"gateway": _WRITE, "orchestrator": _WRITE, "projector": _WRITE},
    "availability": {"orchestrator": "SELECT, INSERT, UPDATE", "projector": "SELECT, INSERT, UPDATE"},
    "tool_executions": {"tool_runner": "SELECT, INSERT, DELETE"},
    # Read models, and how far they are.
    "conversations": {"gateway": _READ, "orchestrator": _READ, "projector": _REFILL},
    "messages": {"gateway": _READ, "projector": _REFILL},
    "runs": {"gateway": _READ, "orchestrator": _READ, "projector": _REFILL},
    "usage_by_day": {"gateway": _READ, "orchestrator": _READ, "projector": _REFILL},
    "tools": {"gateway": _READ, "projector": _REFILL},
    "approvals": {"gateway": _READ, "projector": _REFILL},
    "search": {"gateway": _READ, "projector": _REFILL},
    "feedback": {"gateway": _READ, "orchestrator": _READ, "projector": _REFILL},
    "user_deletions": {"gateway": "SELECT, INSERT", "projector": "SELECT, DELETE"},
    "projection_positions": {"gateway": _READ, "orchestrator": _READ, "projector": _WRITE},
    "parked_events": {"projector": _WRITE, "console": _READ},
    # The directory. The gateway serves the admin API.
    "plans": {"gateway": _WRITE, "orchestrator": _READ},
    "accounts": {"gateway": _WRITE, "orchestrator": _READ, "projector": "SELECT, DELETE"},
    "api_keys": {"gateway": _WRITE},
    "agents": {"gateway": _WRITE, "orchestrator": _READ, "tool_runner": _READ, "projector": _READ},
    "agent_versions": {
        "gateway": "SELECT, INSERT, UPDATE (provider_key, fallback_keys, mcp_headers)",
        "orchestrator": _READ,
        "tool_runner": _READ,
    },
    "mcp_authorizations": {"gateway": _WRITE, "tool_runner": "SELECT, UPDATE"},
    "admin_tokens": {"gateway": "SELECT, INSERT, UPDATE"},
    "console_sessions": {"console": _WRITE},
    "what_if_runs": {"console": _WRITE, "projector": "SELECT, DELETE"},
    "audit_log": {
        "gateway": "SELECT, INSERT (actor, action, kind, subject, subject_name, before, after)",
    },
    # Webhooks.
    "webhook_endpoints": {
        "gateway": _WRITE,
        "projector": "SELECT, UPDATE",
    },
    "webhook_deliveries": {"gateway": "SELECT, INSERT, UPDATE", "projector": _WRITE},
    "webhook_position": {"gateway": _READ, "projector": "SELECT, UPDATE"},
    # Files.
    "files": {
        "gateway": _WRITE,
        "orchestrator": _READ,
        "tool_runner": "SELECT, INSERT, UPDATE",
        "projector": "SELECT, UPDATE, DELETE",
    },
    # Knowledge.
    "knowledge_bases": {"gateway": _WRITE, "orchestrator": _READ},
    "documents": {"gateway": _WRITE, "orchestrator": _READ},
    "chunks": {"gateway": _WRITE, "orchestrator": _READ},
    "chunk_embeddings": {"gateway": _WRITE, "orchestrator": _READ},
}

_NOT_FOR_THE_CONSOLE = ("idempotency_keys",)

TABLES: dict[str, dict[Service, LiteralString]] = {
    table: rights | {"console": rights["gateway"]}
    if "gateway" in rights and table not in _NOT_FOR_THE_CONSOLE
    else rights
    for table, rights in _TABLES.items()
}
"""Every table, in the order of the libraries that own them.

The console reads what a gateway reads, and serves the same administration.
"""

READERS: tuple[Service, ...] = ("gateway", "projector", "console")
"""Services that read the log by position."""

_APPEND_EVENTS: LiteralString = (
    "append_events(float8, float8, float8, text[], text[], bigint[], text[], text[], float8[], text[],"
    " boolean[], integer[], bigint[], text[], bytea[], text[], timestamptz[], boolean)"
)


async def grant(database_url: str) -> None:
    """Grant every role its rights and revoke all others, as the database's owner. Safe to repeat.

    Raises:
        psycopg.Error, MigrationError
    """
    async with open_migration(database_url) as conn:
        # A temporary table of a service's own would be found before the one that a trigger names.
        await _run(conn, "REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC", conn.info.dbname)
        for service in SERVICES:
            await _run(conn, "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {}", get_role(service))
        for table, rights in TABLES.items():
            if await _has_table(conn, table):
                for service, right in rights.items():
                    await _run(conn, f"GRANT {right} ON public.{{}} TO {{}}", table, get_role(service))
        await _run(conn, f"GRANT EXECUTE ON FUNCTION {_APPEND_EVENTS} TO {{}}", get_role("orchestrator"))
        await _run(conn, "GRANT EXECUTE ON FUNCTION remove_content(bigint[]) TO {}", get_role("projector"))
        for each in READERS:
            await _run(conn, "GRANT EXECUTE ON FUNCTION settled_position() TO {}", get_role(each))
        # Commands build read models again in temporary tables.
        await _run(conn, "GRANT TEMPORARY ON DATABASE {} TO {}", conn.info.dbname, SERVICE_ROLE)
        await _run(conn, "GRANT USAGE ON SCHEMA {} TO {}", "public", OPERATOR)
        for what in ("TABLES", "SEQUENCES"):
            await _run(conn, f"GRANT SELECT ON ALL {what} IN SCHEMA {{}} TO {{}}", "public", OPERATOR)


async def _has_table(conn: Connection, table: str) -> bool:
    """Return True if the table exists: without pgvector there are no embeddings."""
    row = await (await conn.execute("SELECT to_regclass(%s) IS NOT NULL", [f"public.{table}"])).fetchone()
    return row == (True,)


async def _run(conn: Connection, statement: LiteralString, *names: str) -> None:
    await conn.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
