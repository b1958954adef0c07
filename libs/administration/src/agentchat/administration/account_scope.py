"""Limit administrators to some accounts: check each id that a request names, wherever it stands.

The gateway and the console call `check_path` and `check_named` before each handler. Lists of more than one
account are filtered by `Admin.account_ids` in their own queries. The route of such a list says so with
`filtered`; no other route without an id in its path is open to a limited administrator.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from agentchat.administration.admin import Admin, translate_errors
from agentchat.administration.checked_input import parse_id
from agentchat.contracts.admin_errors import Disallowed, NotFound
from agentchat.contracts.ids import is_trace_id
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.queries.find_by_trace import find_run

KINDS = {
    "account_id": "account",
    "account": "account",
    "agent_id": "agent",
    "agent": "agent",
    "key_id": "key",
    "knowledge_base_id": "knowledge base",
    "base_id": "knowledge base",
    "endpoint_id": "webhook endpoint",
    "approval_id": "approval",
    "conversation_id": "conversation",
    "conversation": "conversation",
    "fork": "conversation",
    "trace_id": "run",
    "trace": "run",
    "run": "run",
    "what_if_id": "what-if",
}
"""The kind of thing that a parameter names: of a path, a query, a form or a body."""


async def check_path(admin: Admin, path: Mapping[str, Any], *, filtered: bool) -> None:
    """Check that a limited administrator may use a route, and what its `path` names.

    Raises NotFound, as for an unknown id; Disallowed for a route that concerns all accounts; Unavailable.
    """
    if admin.account_ids is None:
        return
    if not (filtered or has_account(path)):
        raise Disallowed("not_allowed", _ALL_ACCOUNTS)
    await check_named(admin, path)


def has_account(path: Iterable[str]) -> bool:
    """Return True if a parameter of a path names something of an account."""
    return not KINDS.keys().isdisjoint(path)


async def check_named(admin: Admin, given: Mapping[str, Any]) -> None:
    """Check that what a path, query, form or body names is of the administrator's accounts.

    Raises NotFound, as for an unknown id; Unavailable.
    """
    if admin.account_ids is None:
        return
    for name, value in given.items():
        # A fork is a conversation and a message, joined by a colon.
        if name in KINDS and isinstance(value, str) and (subject := value.partition(":")[0]):
            await _check_owner(admin, KINDS[name], subject)


async def _check_owner(admin: Admin, kind: str, text: str) -> None:
    found = await _find_account(admin, kind, text)
    if found is None or found not in (admin.account_ids or ()):
        raise NotFound(kind, text[:100])


async def _find_account(admin: Admin, kind: str, text: str) -> str | None:
    with translate_errors():
        if kind == "run":
            run = await find_run(admin.pool, text.lower()) if is_trace_id(text.lower()) else None
            return None if run is None else run.account_id
        subject = parse_id(kind, text)
        if kind == "conversation":  # of which the read models may not know yet
            return (await Log(admin.pool).load_newest_run(subject)).account_id
    async with admin.connection() as conn:
        row = await (await conn.execute(_OWNERS[kind], [subject])).fetchone()
    return None if row is None else str(row[0])


_ALL_ACCOUNTS = "This concerns all accounts, and you are limited to some: ask an owner who has all."

_OWNERS = {
    "account": "SELECT account_id FROM accounts WHERE account_id = %s",
    "agent": "SELECT account_id FROM agents WHERE agent_id = %s",
    "key": "SELECT account_id FROM api_keys WHERE key_id = %s",
    "knowledge base": "SELECT account_id FROM knowledge_bases WHERE knowledge_base_id = %s",
    "webhook endpoint": "SELECT account_id FROM webhook_endpoints WHERE endpoint_id = %s",
    "approval": "SELECT account_id FROM approvals WHERE approval_id = %s",
    "what-if": "SELECT account_id FROM what_if_runs WHERE what_if_id = %s LIMIT 1",
}
