"""Reading conversations back, and deleting them."""

import json
from typing import Any

from contracts import wire
from contracts.examples import AGENT, AT, CONVERSATION, REPLY, TRACE, USER_MESSAGE
from conversations.projections.conversations import ConversationRow
from gateway.openapi.answers import READING, refusals, success
from gateway.openapi.operations import CONVERSATION_ID, CURSOR, LIMIT, PLACE, operation
from gateway.openapi.schemas import page_of, ref
from gateway.reads import MessageRow

_ROW = ConversationRow(
    conversation_id=CONVERSATION,
    title="Where is it?",
    agent_id=AGENT,
    message_count=2,
    created_at=AT,
    updated_at=AT,
)
_OF: dict[str, Any] = {
    "conversation_id": CONVERSATION,
    "agent_id": AGENT,
    "trace_id": TRACE,
    "created_at": AT,
}
_VERSION = {
    "X-Conversation-Version": {
        "required": True,
        "description": "How many events have led to it: a place that `at` can name later.",
        "schema": {"type": "integer", "minimum": 1},
        "example": 9,
    }
}
_MESSAGES = (
    MessageRow(id=USER_MESSAGE, role="user", content="Where is it?", **_OF),
    MessageRow(id=REPLY, role="assistant", content="It has shipped.", token_count=469, **_OF),
)


def paths() -> dict[str, Any]:
    """The addresses by their paths."""
    row = json.loads(wire.encode(_ROW))
    messages = json.loads(wire.encode(_MESSAGES))
    one = refusals(*READING, "conversation_not_found")
    return {
        "/v1/conversations": {
            "get": operation(
                "listConversations",
                "conversations",
                "List the account's conversations, the newest first.",
                {
                    **success("A page of them.", page_of(ref(ConversationRow)), {"last": _page(row)}),
                    **refusals(*READING),
                },
                description="The list may be behind by a moment; one conversation never is.",
                parameters=[LIMIT, CURSOR],
            )
        },
        "/v1/conversations/{conversation_id}": {
            "get": operation(
                "getConversation",
                "conversations",
                "Get one conversation, as it is or as it was.",
                {
                    **success(
                        "The conversation.", ref(ConversationRow), {"conversation": row}, headers=_VERSION
                    ),
                    **one,
                },
                parameters=[CONVERSATION_ID, PLACE],
            ),
            "delete": operation(
                "deleteConversation",
                "conversations",
                "Delete a conversation for every reader, for ever.",
                {**success("It is gone.", status=204), **refusals(*READING, "conversation_not_found")},
                description="A run under way is cancelled first.",
                parameters=[CONVERSATION_ID],
            ),
        },
        "/v1/conversations/{conversation_id}/messages": {
            "get": operation(
                "listMessages",
                "conversations",
                "List a conversation's messages, the oldest first.",
                {
                    **success("A page of them.", page_of(ref(MessageRow)), {"last": _page(*messages)}),
                    **one,
                },
                parameters=[CONVERSATION_ID, PLACE, LIMIT, CURSOR],
            )
        },
    }


def _page(*rows: Any) -> dict[str, Any]:
    return {"data": [*rows], "next_cursor": None}
