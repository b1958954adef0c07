"""Count what an account has and what uses an agent, before they are deleted."""

from agentchat.administration.admin import Admin
from agentchat.contracts.admin_errors import Use
from agentchat.conversations.projections.conversations_table import find_conversations_with_agent
from agentchat.conversations.projections.runs_table import list_open_runs_of_agent
from agentchat.conversations.queries.conversation_filters import count_conversations
from agentchat.runtime.postgres import Connection

NAMES = 5


async def list_account_holdings(admin: Admin, account_id: str) -> tuple[Use, ...]:
    """List an account's unrevoked keys, agents, endpoints, knowledge bases and conversations."""
    async with admin.connection() as conn:
        held = await list_directory_holdings(conn, account_id)
        threads = await count_conversations(conn, account_id)
    return (*held, Use("conversations", threads)) if threads else held


async def list_agent_uses(conn: Connection, account_id: str, agent_id: str) -> tuple[Use, ...]:
    """List an agent's open runs, and the conversations that it answered last."""
    runs, traces = await list_open_runs_of_agent(conn, account_id, agent_id, limit=NAMES)
    threads, ids = await find_conversations_with_agent(conn, account_id, agent_id, limit=NAMES)
    uses = Use("open runs", runs, traces), Use("conversations", threads, ids)
    return tuple(use for use in uses if use.count)


async def list_directory_holdings(conn: Connection, account_id: str) -> tuple[Use, ...]:
    """List the account's holdings other than conversations."""
    uses = [await _count_use(conn, kind, account_id) for kind in _KINDS]
    return tuple(use for use in uses if use.count)


async def _count_use(conn: Connection, kind: str, account_id: str) -> Use:
    cursor = await conn.execute(_KINDS[kind], {"account": account_id, "names": NAMES})
    rows = await cursor.fetchall()
    return Use(kind, rows[0][0] if rows else 0, tuple(row[1] for row in rows))


_KINDS = {
    "keys": """
SELECT count(*) OVER (), concat_ws(' ', nullif(name, ''), '...' || last4) FROM api_keys
 WHERE account_id = %(account)s AND revoked_at IS NULL ORDER BY key_id LIMIT %(names)s""",
    "agents": """
SELECT count(*) OVER (), v.name FROM agents g
  JOIN agent_versions v ON v.agent_id = g.agent_id AND v.version = g.current_version
 WHERE account_id = %(account)s ORDER BY g.agent_id LIMIT %(names)s""",
    "webhook endpoints": """
SELECT count(*) OVER (), url FROM webhook_endpoints
 WHERE account_id = %(account)s ORDER BY endpoint_id LIMIT %(names)s""",
    "knowledge bases": """
SELECT count(*) OVER (), name FROM knowledge_bases
 WHERE account_id = %(account)s ORDER BY knowledge_base_id LIMIT %(names)s""",
}
