"""POST /v1/chat in OpenAPI."""

import json
from typing import Any

from contracts import http, wire
from contracts.examples import CONVERSATION
from gateway.openapi.answers import RATE_LIMIT, refusals, success
from gateway.openapi.chat import ASKING, BODY, FAILING, MESSAGE, TOOL_CALL
from gateway.openapi.operations import AGENT_ID, IDEMPOTENCY_KEY
from gateway.openapi.operations import operation as described
from gateway.openapi.schemas import ref


def operation() -> dict[str, Any]:
    """The operation."""
    reply = http.ChatReply(conversation_id=CONVERSATION, message=MESSAGE)
    with_tools = http.ChatReply(conversation_id=CONVERSATION, message=MESSAGE, tool_calls=(TOOL_CALL,))
    examples = {"text": json.loads(wire.encode(reply)), "with tools": json.loads(wire.encode(with_tools))}
    return described(
        "chat",
        "chat",
        "Send a message, get the reply as JSON.",
        {
            **success("The saved reply.", ref(http.ChatReply), examples, headers=RATE_LIMIT),
            **refusals(*ASKING, *FAILING, headers=RATE_LIMIT),
        },
        parameters=[AGENT_ID, IDEMPOTENCY_KEY],
        body=BODY,
    )
