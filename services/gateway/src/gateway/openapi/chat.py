"""Asking: both chat endpoints, their stream in both forms, and cancelling."""

import json
from typing import Any

from contracts import http, sse, wire
from contracts.examples import AT, CONVERSATION, REPLY, SOURCE, TRACE
from contracts.updates import Finished, Started, Text, ToolStarted, Update
from contracts.values import Message, ToolCall
from gateway.openapi.answers import KEYED, RATE_LIMIT, READING, refusals, success
from gateway.openapi.operations import (
    AGENT_ID,
    EVENT_CURSOR,
    IDEMPOTENCY_KEY,
    LAST_EVENT_ID,
    RUN_FORM,
    STREAM_FORM,
    TRACE_ID,
    operation,
)
from gateway.openapi.schemas import ref
from gateway.story import Story

_MESSAGE = Message(
    id=REPLY, conversation_id=CONVERSATION, content="It has shipped.", token_count=469, created_at=AT
)
_TOOL_CALL = ToolCall(name="get_order", input={"order_id": "ORD-1001"}, output='{"status":"shipped"}')
_DELTAS = (http.DeltaEvent(content="It has "), http.DeltaEvent(content="shipped."))
_ERROR = http.ErrorEvent(code="provider_timeout", message="The model provider did not answer in time")
STREAMS: dict[str, tuple[http.StreamEvent, ...]] = {
    "form 1": (
        http.MetaEvent(conversation_id=CONVERSATION, trace_id=TRACE),
        *_DELTAS,
        http.DoneEvent(conversation_id=CONVERSATION, trace_id=TRACE),
    ),
    "form 1, with retrieval": (
        http.MetaEvent(conversation_id=CONVERSATION, trace_id=TRACE),
        http.SourcesEvent(sources=(SOURCE,)),
        *_DELTAS,
        http.DoneEvent(conversation_id=CONVERSATION, trace_id=TRACE),
    ),
    "form 1, failed": (http.MetaEvent(conversation_id=CONVERSATION, trace_id=TRACE), _DELTAS[0], _ERROR),
    "form 2": (
        http.StartEvent(conversation_id=CONVERSATION),
        http.ToolCallEvent(name=_TOOL_CALL.name, input=_TOOL_CALL.input),
        *_DELTAS,
        http.MessageDoneEvent(message=_MESSAGE, tool_calls=(_TOOL_CALL,)),
    ),
    "form 2, failed": (http.StartEvent(conversation_id=CONVERSATION), _ERROR),
}
"""An example of each kind of stream."""

_BODY = {
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
_EVENT: dict[str, Any] = {
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
    **_EVENT,
    "description": "One event: a line with its id, and one of JSON. Lines that begin with a colon are to be "
    "ignored.",
    "properties": {"id": {"type": "string"}, **_EVENT["properties"]},
}
_TOLD: tuple[Update, ...] = (
    Started(),
    ToolStarted("call_1", _TOOL_CALL.name, _TOOL_CALL.input),
    Text("It has "),
    Text("shipped."),
    Finished(_MESSAGE, (_TOOL_CALL,)),
)
_ASKING = (
    *KEYED,
    *("agent_not_found", "conversation_not_found", "conversation_busy", "idempotency_conflict", "cancelled"),
    *("unsupported_media_type", "message_too_large", "rate_limited", "quota_exceeded"),
    *("server_shutdown", "deadline_exceeded"),
)
_FAILING = (
    *("provider_error", "provider_refused", "provider_overloaded", "provider_timeout", "context_too_long"),
    *("output_invalid", "generation_interrupted"),
)


def paths() -> dict[str, Any]:
    """The addresses by their paths."""
    return {
        "/v1/chat": {"post": _post_chat()},
        "/v1/chat/stream": {"post": _post_stream()},
        "/v1/chat/{trace_id}/cancel": {"post": _post_cancel()},
        "/v1/chat/{trace_id}/events": {"get": _get_events()},
    }


def _post_chat() -> dict[str, Any]:
    reply = http.ChatReply(conversation_id=CONVERSATION, message=_MESSAGE)
    with_tools = http.ChatReply(conversation_id=CONVERSATION, message=_MESSAGE, tool_calls=(_TOOL_CALL,))
    examples = {"text": json.loads(wire.encode(reply)), "with tools": json.loads(wire.encode(with_tools))}
    return operation(
        "chat",
        "chat",
        "Send a message, get the reply as JSON.",
        {
            **success("The saved reply.", ref(http.ChatReply), examples, headers=RATE_LIMIT),
            **refusals(*_ASKING, *_FAILING, headers=RATE_LIMIT),
        },
        parameters=[AGENT_ID, IDEMPOTENCY_KEY],
        body=_BODY,
    )


def _post_stream() -> dict[str, Any]:
    examples = {name: b"".join(map(wire.encode_sse, events)).decode() for name, events in STREAMS.items()}
    return operation(
        "streamChat",
        "chat",
        "Send a message, get the reply as server-sent events.",
        {
            **success(
                "The message is saved, and these are the events of its reply. The contents of the `delta` "
                "events, joined, are the reply; the last event is one `done` or one `error`.",
                _EVENT,
                examples,
                media_type="text/event-stream",
                headers=RATE_LIMIT,
            ),
            **refusals(*_ASKING, "plan_upgrade_required", *_FAILING, headers=RATE_LIMIT),
        },
        description="Form 1 has the events meta, sources (where retrieval ran), delta, done, error. Form 2 "
        "has start, delta, tool_call, done (with the saved message and the calls' outputs), error.",
        parameters=[AGENT_ID, STREAM_FORM, IDEMPOTENCY_KEY],
        body=_BODY,
    )


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
