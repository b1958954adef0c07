"""What is asked of an agent and told of its runs: what the doors' descriptions share; cancelling; joining."""

import json
from typing import Any

from contracts import http, sse, wire
from contracts.examples import AT, CONVERSATION, REPLY, TRACE
from contracts.updates import Finished, Started, Text, ToolStarted, Update
from contracts.values import Message, ToolCall
from gateway.openapi.answers import KEYED, READING, refusals, success
from gateway.openapi.operations import (
    EVENT_CURSOR,
    LAST_EVENT_ID,
    RUN_FORM,
    TRACE_ID,
    operation,
)
from gateway.openapi.schemas import ref
from gateway.story import Story

MESSAGE = Message(
    id=REPLY, conversation_id=CONVERSATION, content="It has shipped.", token_count=469, created_at=AT
)
TOOL_CALL = ToolCall(name="get_order", input={"order_id": "ORD-1001"}, output='{"status":"shipped"}')
DELTAS = (http.DeltaEvent(content="It has "), http.DeltaEvent(content="shipped."))
ERROR = http.ErrorEvent(code="provider_timeout", message="The model provider did not answer in time")

BODY = {
    "required": True,
    "description": "At most 1 MiB and 32 levels deep, every name once. A field that is not known is refused.",
    "content": {
        "application/json": {
            "schema": ref(http.ChatBody),
            "examples": {
                "new": {"summary": "A new conversation", "value": {"message": "Where is my order ORD-1001?"}},
                "more": {
                    "summary": "The next message of one",
                    "value": {"message": "And the other one?", "conversation_id": CONVERSATION},
                },
                "prompt": {
                    "summary": "With a system prompt of its own",
                    "value": {"message": "Hello!", "conversation_id": None, "prompt": "Answer in French."},
                },
            },
        }
    },
}
EVENT: dict[str, Any] = {
    "description": "One event: one line of JSON. Lines that begin with a colon are to be ignored.",
    "type": "object",
    "required": ["data"],
    "properties": {
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"anyOf": [ref("EventOfForm1"), ref("EventOfForm2")]},
        }
    },
}
_MARKED_EVENT = {
    **EVENT,
    "description": "One event: a line with its id, and one of JSON. Lines that begin with a colon are to be "
    "ignored.",
    "properties": {"id": {"type": "string"}, **EVENT["properties"]},
}
_TOLD: tuple[Update, ...] = (
    Started(),
    ToolStarted("call_1", TOOL_CALL.name, TOOL_CALL.input),
    Text("It has "),
    Text("shipped."),
    Finished(MESSAGE, (TOOL_CALL,)),
)
ASKING = (
    *KEYED,
    *("agent_not_found", "conversation_not_found", "conversation_busy", "idempotency_conflict", "cancelled"),
    *("unsupported_media_type", "message_too_large", "rate_limited", "quota_exceeded"),
    *("server_shutdown", "deadline_exceeded"),
)
FAILING = (
    *("provider_error", "provider_refused", "provider_overloaded", "provider_timeout", "context_too_long"),
    *("output_invalid", "generation_interrupted"),
)


def paths() -> dict[str, Any]:
    """The addresses by their paths."""
    return {
        "/v1/chat/{trace_id}/cancel": {"post": _post_cancel()},
        "/v1/chat/{trace_id}/events": {"get": _get_events()},
    }


def _post_cancel() -> dict[str, Any]:
    examples = {"cancelling": json.loads(wire.encode(http.Cancelling(trace_id=TRACE)))}
    return operation(
        "cancelChat",
        "chat",
        "Cancel a run that is under way or in line.",
        {
            **success("It is being cancelled.", ref(http.Cancelling), examples, status=202),
            **refusals(*READING, "not_found", "run_ended", "message_too_large"),
        },
        description="Its stream ends with the error `cancelled`, a waiting JSON call with 409 `cancelled`; "
        "the text so far is saved.",
        parameters=[TRACE_ID],
    )


def _get_events() -> dict[str, Any]:
    return operation(
        "chatEvents",
        "chat",
        "Join a stream, read it again, or go on with one that broke off.",
        {
            **success(
                "The events of the run, each with a line `id:` before its data: under way as they come, then "
                "for as long as the conversation exists. Nothing where the cursor is that of the last event.",
                _MARKED_EVENT,
                {"form 1": _marked("form1"), "form 2": _marked("form2")},
                media_type="text/event-stream",
            ),
            **refusals(
                *READING,
                *("plan_upgrade_required", "not_found", "conversation_busy", "cursor_expired"),
                *("message_too_large", "server_shutdown"),
            ),
        },
        description="For a run of either chat endpoint, at any gateway. An id means the same everywhere and "
        "in both forms. What a gateway says of itself (`server_shutdown`) has none.",
        parameters=[TRACE_ID, RUN_FORM, LAST_EVENT_ID, EVENT_CURSOR],
    )


def _marked(form: sse.Form) -> str:
    story, encoder = Story(), sse.Encoder(form, CONVERSATION, TRACE)
    story.add(_TOLD)
    return b"".join(entry.data(form, encoder) for entry in story.entries).decode()
