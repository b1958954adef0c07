"""All handlers of the public API, by feature: the tags and the security of each in the API's description."""

from collections.abc import Iterable
from typing import Any

from litestar import Router

from agentchat.gateway import status
from agentchat.gateway.api import (
    approvals,
    conversations,
    feedback,
    webhook_deliveries,
    webhook_endpoints,
)
from agentchat.gateway.api.cancel_run import cancel
from agentchat.gateway.api.describe_conversation import describe
from agentchat.gateway.api.follow_run import follow_chat
from agentchat.gateway.api.forks import fork
from agentchat.gateway.api.list_conversations import list_conversations
from agentchat.gateway.api.oauth_callback import get_oauth_callback
from agentchat.gateway.front_page import get_links
from agentchat.gateway.openapi import get_openapi
from agentchat.gateway.protocols import handlers as protocols
from agentchat.gateway.protocols.chat import chat, stream_chat


def _routes(tag: str, handlers: Iterable[Any], *schemes: str) -> Router:
    """Group handlers that take a key by any of these schemes."""
    return Router(
        "/", route_handlers=[*handlers], tags=[tag], security=[{scheme: list[str]()} for scheme in schemes]
    )


ROUTES = (
    _routes("chat", (chat, stream_chat, follow_chat, cancel), "key"),
    _routes(
        "conversations",
        (
            *(list_conversations, conversations.get_conversation, conversations.list_messages),
            *(describe, fork, conversations.delete_conversation),
        ),
        "key",
    ),
    _routes("messages", (feedback.give, feedback.list_feedback, feedback.withdraw), "key"),
    _routes("approvals", (approvals.list_of_account, approvals.get_one, approvals.decide_one), "key"),
    _routes("webhooks", (*webhook_endpoints.HANDLERS, *webhook_deliveries.HANDLERS), "key"),
    _routes("service", (get_oauth_callback, *status.HANDLERS, get_openapi, get_links)),
    _routes("openai", protocols.OPENAI, "bearer"),
    _routes("ai-sdk", protocols.AI_SDK, "key", "bearer"),
    _routes("ag-ui", protocols.AG_UI, "key", "bearer"),
)
