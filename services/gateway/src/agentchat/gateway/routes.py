"""List all handlers of the public API by feature, with their tags and security in OpenAPI."""

from collections.abc import Iterable
from typing import Any

from litestar import Router

from agentchat.gateway import health
from agentchat.gateway.api import (
    account_overview,
    approval_handlers,
    file_handlers,
    message_feedback,
    user_handlers,
    webhook_deliveries,
    webhook_endpoints,
)
from agentchat.gateway.api.cancel_run import cancel
from agentchat.gateway.api.delete_conversation import delete_conversation
from agentchat.gateway.api.describe_conversation import describe
from agentchat.gateway.api.fork_conversation import fork
from agentchat.gateway.api.get_conversation import get_conversation, list_messages
from agentchat.gateway.api.get_run import get_run
from agentchat.gateway.api.list_conversations import list_conversations
from agentchat.gateway.api.oauth_callback import get_oauth_callback
from agentchat.gateway.api.resume_stream import follow_chat
from agentchat.gateway.api.take_tool_results import take_tool_results
from agentchat.gateway.openapi import get_openapi, open_docs
from agentchat.gateway.protocols.ag_ui.run_agent import run_agent
from agentchat.gateway.protocols.ai_sdk.ai_sdk_chat import chat_with_ui
from agentchat.gateway.protocols.ai_sdk.resume_chat import reconnect
from agentchat.gateway.protocols.chat import chat, stream_chat
from agentchat.gateway.protocols.mcp.mcp_route import serve_mcp
from agentchat.gateway.protocols.openai import openai_files
from agentchat.gateway.protocols.openai.completions import complete
from agentchat.gateway.protocols.openai.model_list import get_model, list_models
from agentchat.gateway.protocols.openai.responses.create_response import create_response
from agentchat.gateway.protocols.openai.responses.retrieve_response import cancel_response, retrieve_response


def _build_router(tag: str, handlers: Iterable[Any], *schemes: str, path: str = "/") -> Router:
    """Group handlers that take a key by any of these schemes."""
    return Router(
        path, route_handlers=[*handlers], tags=[tag], security=[{scheme: list[str]()} for scheme in schemes]
    )


_OPENAI = (complete, list_models, get_model, create_response, retrieve_response, cancel_response)

ROUTES = (
    _build_router("chat", (chat, stream_chat, take_tool_results, get_run, follow_chat, cancel), "key"),
    _build_router(
        "conversations",
        (
            *(list_conversations, get_conversation, list_messages),
            *(describe, fork, delete_conversation),
        ),
        "key",
    ),
    _build_router(
        "messages", (message_feedback.give, message_feedback.list_feedback, message_feedback.withdraw), "key"
    ),
    _build_router(
        "approvals",
        (approval_handlers.list_of_account, approval_handlers.get_one, approval_handlers.decide_one),
        "key",
    ),
    _build_router("files", file_handlers.HANDLERS, "key"),
    _build_router("account", account_overview.HANDLERS, "key"),
    _build_router("users", user_handlers.HANDLERS, "key"),
    _build_router("webhooks", (*webhook_endpoints.HANDLERS, *webhook_deliveries.HANDLERS), "key"),
    _build_router("service", (get_oauth_callback, *health.HANDLERS, get_openapi, open_docs)),
    _build_router("openai", (*_OPENAI, *openai_files.HANDLERS), "bearer", path="/openai/v1"),
    # AzureOpenAI(azure_endpoint=…) has other addresses: a deployment is an agent.
    Router("/openai", route_handlers=[*_OPENAI], include_in_schema=False),
    Router("/openai/deployments/{deployment:str}", route_handlers=[complete], include_in_schema=False),
    _build_router("ai-sdk", (chat_with_ui, reconnect), "key", "bearer"),
    _build_router("ag-ui", (run_agent,), "key", "bearer"),
    _build_router("mcp", (serve_mcp,), "key", "bearer"),
)
