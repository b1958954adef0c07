"""All handlers of the public API, by feature."""

from gateway import status
from gateway.api import (
    approvals,
    conversations,
    feedback,
    oauth_callback,
    webhook_deliveries,
    webhook_endpoints,
)
from gateway.api.cancel_run import cancel
from gateway.api.describe_conversation import describe
from gateway.api.follow_run import follow_chat
from gateway.api.forks import fork
from gateway.api.list_conversations import list_conversations
from gateway.front_page import get_links
from gateway.openapi import get_openapi
from gateway.protocols.handlers import HANDLERS as PROTOCOLS

ROUTES = (
    *PROTOCOLS,
    *(follow_chat, cancel),
    *(list_conversations, conversations.get_conversation, conversations.list_messages),
    *(describe, fork, conversations.delete_conversation),
    *(feedback.give, feedback.list_feedback, feedback.withdraw),
    *(approvals.list_of_account, approvals.get_one, approvals.decide_one),
    *webhook_endpoints.HANDLERS,
    *webhook_deliveries.HANDLERS,
    *oauth_callback.HANDLERS,
    *status.HANDLERS,
    *(get_openapi, get_links),
)
