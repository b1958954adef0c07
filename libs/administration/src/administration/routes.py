"""The table of the admin API: every address, and the function behind it.

The gateway serves and describes this table, and `agentchat admin` calls it.
"""

from administration import (
    accounts,
    agents,
    approvals,
    audit,
    authorizations,
    conversations,
    documents,
    keys,
    knowledge,
    mcp_servers,
    plans,
    usage,
)
from administration.route import Route, route

_ACCOUNT = "/accounts/{account_id}"
_KEY = "/keys/{key_id}"
_PLAN = "/plans/{name}"
_AGENT = "/agents/{agent_id}"
_VERSION = f"{_AGENT}/versions/{{version}}"
_SERVER = f"{_AGENT}/mcp_servers/{{name}}"
_AUTHORIZATION = f"{_SERVER}/authorization"
_BASE = "/knowledge_bases/{knowledge_base_id}"
_DOCUMENT = f"{_BASE}/documents/{{document_id}}"
_APPROVAL = "/approvals/{approval_id}"
_CONVERSATION = "/conversations/{conversation_id}"
MAX_DOCUMENT_BYTES = 4 * 1024 * 1024

ROUTES: tuple[Route, ...] = (
    route("POST", "/accounts", accounts.create, status=201),
    route("GET", "/accounts", accounts.page),
    route("GET", _ACCOUNT, accounts.get),
    route("PATCH", _ACCOUNT, accounts.change),
    route("DELETE", _ACCOUNT, accounts.delete),
    route("GET", f"{_ACCOUNT}/usage", usage.of_month),
    route("POST", f"{_ACCOUNT}/keys", keys.create, status=201),
    route("GET", f"{_ACCOUNT}/keys", keys.page),
    route("GET", _KEY, keys.get),
    route("PATCH", _KEY, keys.change),
    route("DELETE", _KEY, keys.revoke),
    route("POST", f"{_KEY}/rotate", keys.rotate),
    route("POST", "/plans", plans.create, status=201),
    route("GET", "/plans", plans.page),
    route("GET", _PLAN, plans.get),
    route("PATCH", _PLAN, plans.change),
    route("DELETE", _PLAN, plans.delete),
    route("GET", "/audit", audit.page),
    route("GET", "/usage", usage.all_accounts),
    route("POST", "/agents", agents.create, status=201),
    route("GET", "/agents", agents.page),
    route("GET", _AGENT, agents.current),
    route("PATCH", _AGENT, agents.change),
    route("DELETE", _AGENT, agents.delete),
    route("GET", f"{_AGENT}/versions", agents.versions),
    route("GET", _VERSION, agents.get),
    route("POST", f"{_VERSION}/restore", agents.restore),
    route("POST", f"{_AGENT}/check", agents.check),
    route("GET", f"{_AGENT}/mcp_servers", mcp_servers.all),
    route("POST", f"{_AGENT}/mcp_servers", mcp_servers.add, status=201),
    route("GET", _SERVER, mcp_servers.get),
    route("PUT", _SERVER, mcp_servers.put),
    route("PATCH", _SERVER, mcp_servers.change),
    route("DELETE", _SERVER, mcp_servers.remove),
    route("GET", _AUTHORIZATION, authorizations.get),
    route("PUT", _AUTHORIZATION, authorizations.put),
    route("DELETE", _AUTHORIZATION, authorizations.remove),
    route("POST", f"{_AUTHORIZATION}/link", authorizations.link),
    route("POST", "/knowledge_bases", knowledge.create, status=201),
    route("GET", "/knowledge_bases", knowledge.page),
    route("GET", _BASE, knowledge.get),
    route("PATCH", _BASE, knowledge.change),
    route("DELETE", _BASE, knowledge.delete),
    route("GET", f"{_BASE}/search", knowledge.search),
    route("GET", f"{_BASE}/search/why", knowledge.explain),
    route("POST", f"{_BASE}/documents", documents.put, status=201, max_bytes=MAX_DOCUMENT_BYTES),
    route("GET", f"{_BASE}/documents", documents.page),
    route("GET", _DOCUMENT, documents.get),
    route("PUT", _DOCUMENT, documents.replace, max_bytes=MAX_DOCUMENT_BYTES),
    route("DELETE", _DOCUMENT, documents.delete),
    route("GET", f"{_DOCUMENT}/chunks", documents.chunks),
    route("GET", "/approvals", approvals.page),
    route("GET", _APPROVAL, approvals.get),
    route("POST", f"{_APPROVAL}/decision", approvals.decide),
    route("GET", "/conversations", conversations.page),
    route("GET", "/conversations/search", conversations.search),
    route("GET", "/conversations/deletions", conversations.deletions),
    route("DELETE", _CONVERSATION, conversations.delete),
)

BY_NAME = {each.name: each for each in ROUTES}
