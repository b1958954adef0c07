"""List the routes of the admin API and the functions behind them.

The gateway serves and describes this table, and `agentchat admin` calls it.
"""

from agentchat.administration import (
    admin_accounts,
    admin_agents,
    admin_approvals,
    admin_audit,
    admin_authorizations,
    admin_canary,
    admin_conversations,
    admin_documents,
    admin_keys,
    admin_knowledge,
    admin_mcp_servers,
    admin_plans,
    admin_retention,
    admin_run_list,
    admin_runs,
    admin_tokens,
    admin_usage,
    admin_users,
    admin_webhooks,
)
from agentchat.administration.route_signature import Route, route
from agentchat.directory.named_tokens import Role

_ACCOUNT = "/accounts/{account_id}"
_USER = f"{_ACCOUNT}/users/{{user}}"
_KEY = "/keys/{key_id}"
_PLAN = "/plans/{name}"
_AGENT = "/agents/{agent_id}"
_VERSION = f"{_AGENT}/versions/{{version}}"
_SERVER = f"{_AGENT}/mcp_servers/{{name}}"
_AUTHORIZATION = f"{_SERVER}/authorization"
_BASE = "/knowledge_bases/{knowledge_base_id}"
_DOCUMENT = f"{_BASE}/documents/{{document_id}}"
_APPROVAL = "/approvals/{approval_id}"
_ENDPOINT = "/webhook_endpoints/{endpoint_id}"
_CONVERSATION = "/conversations/{conversation_id}"
MAX_DOCUMENT_BYTES = 4 * 1024 * 1024

ROUTES: tuple[Route, ...] = (
    route("POST", "/accounts", admin_accounts.create, status=201),
    route("GET", "/accounts", admin_accounts.page, filtered=True),
    route("GET", _ACCOUNT, admin_accounts.get),
    route("PATCH", _ACCOUNT, admin_accounts.change),
    route("DELETE", _ACCOUNT, admin_accounts.delete, continues=True),
    route("GET", f"{_ACCOUNT}/usage", admin_usage.get_month),
    route("GET", f"{_ACCOUNT}/retention", admin_retention.get_of_account),
    route("GET", f"{_ACCOUNT}/users", admin_users.page),
    route("GET", _USER, admin_users.get),
    route("GET", f"{_USER}/export", admin_users.export),
    route("DELETE", _USER, admin_users.delete, continues=True),
    route("POST", f"{_ACCOUNT}/keys", admin_keys.create, status=201),
    route("GET", f"{_ACCOUNT}/keys", admin_keys.page),
    route("GET", _KEY, admin_keys.get),
    route("PATCH", _KEY, admin_keys.change),
    route("DELETE", _KEY, admin_keys.revoke),
    route("POST", f"{_KEY}/rotate", admin_keys.rotate),
    route("POST", "/plans", admin_plans.create, status=201),
    route("GET", "/plans", admin_plans.page, filtered=True),
    route("GET", _PLAN, admin_plans.get, filtered=True),
    route("PATCH", _PLAN, admin_plans.change),
    route("DELETE", _PLAN, admin_plans.delete),
    route("GET", "/audit", admin_audit.page, role=Role.OWNER),
    route("POST", "/tokens", admin_tokens.create, status=201),
    route("GET", "/tokens", admin_tokens.page, role=Role.OWNER),
    route("DELETE", "/tokens/{name}", admin_tokens.revoke),
    route("GET", "/usage", admin_usage.list_accounts, filtered=True),
    route("POST", "/agents", admin_agents.create, status=201, role=Role.OPERATOR, filtered=True),
    route("GET", "/agents", admin_agents.page, filtered=True),
    route("GET", _AGENT, admin_agents.get_current),
    route("PATCH", _AGENT, admin_agents.change, role=Role.OPERATOR),
    route("DELETE", _AGENT, admin_agents.delete),
    route("GET", f"{_AGENT}/retention", admin_retention.get_of_agent),
    route("GET", f"{_AGENT}/versions", admin_agents.list_versions),
    route("GET", _VERSION, admin_agents.get),
    route("POST", f"{_VERSION}/restore", admin_agents.restore, role=Role.OPERATOR),
    route("POST", f"{_VERSION}/promote", admin_canary.promote, role=Role.OPERATOR),
    route("GET", f"{_AGENT}/canary", admin_canary.get),
    route("PUT", f"{_AGENT}/canary", admin_canary.put, role=Role.OPERATOR),
    route("POST", f"{_AGENT}/check", admin_agents.check, role=Role.OPERATOR),
    route("POST", f"{_AGENT}/messages", admin_runs.send_message, status=202, role=Role.OPERATOR),
    route("GET", f"{_AGENT}/mcp_servers", admin_mcp_servers.list_servers),
    route("GET", _SERVER, admin_mcp_servers.get),
    route("PUT", _SERVER, admin_mcp_servers.put, role=Role.OPERATOR),
    route("DELETE", _SERVER, admin_mcp_servers.remove, role=Role.OPERATOR),
    route("GET", _AUTHORIZATION, admin_authorizations.get),
    route("PUT", _AUTHORIZATION, admin_authorizations.put, role=Role.OPERATOR),
    route("DELETE", _AUTHORIZATION, admin_authorizations.remove, role=Role.OPERATOR),
    route("POST", f"{_AUTHORIZATION}/link", admin_authorizations.link, role=Role.OPERATOR),
    route("POST", "/knowledge_bases", admin_knowledge.create, status=201, role=Role.OPERATOR, filtered=True),
    route("GET", "/knowledge_bases", admin_knowledge.page, filtered=True),
    route("GET", _BASE, admin_knowledge.get),
    route("PATCH", _BASE, admin_knowledge.change, role=Role.OPERATOR),
    route("DELETE", _BASE, admin_knowledge.delete),
    route("GET", f"{_BASE}/search", admin_knowledge.search),
    route(
        "POST",
        f"{_BASE}/documents",
        admin_documents.put,
        status=201,
        max_bytes=MAX_DOCUMENT_BYTES,
        role=Role.OPERATOR,
    ),
    route("GET", f"{_BASE}/documents", admin_documents.page),
    route("GET", _DOCUMENT, admin_documents.get),
    route("PUT", _DOCUMENT, admin_documents.replace, max_bytes=MAX_DOCUMENT_BYTES, role=Role.OPERATOR),
    route("DELETE", _DOCUMENT, admin_documents.delete),
    route("GET", f"{_DOCUMENT}/chunks", admin_documents.list_chunks),
    route("GET", "/approvals", admin_approvals.page, filtered=True, shows_texts=True),
    route("GET", _APPROVAL, admin_approvals.get, shows_texts=True),
    route("POST", f"{_APPROVAL}/decision", admin_approvals.decide, role=Role.APPROVER),
    route("GET", "/webhook_endpoints", admin_webhooks.page, filtered=True),
    route("GET", _ENDPOINT, admin_webhooks.get),
    route("PATCH", _ENDPOINT, admin_webhooks.change, role=Role.OPERATOR),
    route("GET", f"{_ENDPOINT}/deliveries", admin_webhooks.list_deliveries),
    route(
        "POST",
        f"{_ENDPOINT}/deliveries/{{delivery_id}}/resend",
        admin_webhooks.resend,
        status=202,
        role=Role.OPERATOR,
    ),
    route("GET", "/runs", admin_run_list.page, filtered=True),
    route("GET", "/conversations", admin_conversations.page, filtered=True, shows_texts=True),
    route("GET", "/conversations/search", admin_conversations.page, filtered=True, shows_texts=True),
    route("GET", "/conversations/deletions", admin_conversations.list_deletions),
    route("DELETE", _CONVERSATION, admin_conversations.delete),
    route("POST", f"{_CONVERSATION}/cancel", admin_runs.cancel, status=202, role=Role.OPERATOR),
)
