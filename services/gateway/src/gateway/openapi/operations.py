"""An operation, and the parameters that several have."""

from collections.abc import Mapping, Sequence
from typing import Any

from contracts.examples import AGENT, CONVERSATION, TRACE
from contracts.marks import CURSOR_PATTERN
from gateway.reads import DEFAULT_LIMIT, MAX_LIMIT

AGENT_ID = {
    "name": "X-Agent-Id",
    "in": "header",
    "required": True,
    "description": "The agent to invoke: one of the account's.",
    "schema": {"type": "string", "format": "uuid"},
    "example": AGENT,
}
STREAM_FORM = {
    "name": "X-Stream-Form",
    "in": "header",
    "description": "The form of the stream's events, 2 on some plans only; without it the deployment's.",
    "schema": {"type": "string", "enum": ["1", "2"]},
}
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Names this request: sent again with the same key and body within 24 hours, it gives the "
    "first one's result and starts nothing. Visible ASCII, bare or as a quoted string.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!#-~][!-~]*$"},
    "example": "0f8f3a52-2d4e-4c8f-9d0c-3f1c5a9b7e11",
}
TRACE_ID = {
    "name": "trace_id",
    "in": "path",
    "required": True,
    "description": "The X-Trace-Id of the request that began the run.",
    "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
    "example": TRACE,
}
RUN_FORM = {**STREAM_FORM, "description": "As for the stream; without it the form that the run was asked in."}
LAST_EVENT_ID = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "The id of the last event that was read; the stream goes on behind it.",
    "schema": {"type": "string", "pattern": CURSOR_PATTERN},
}
EVENT_CURSOR = {**LAST_EVENT_ID, "name": "cursor", "in": "query", "description": "The same; the header wins."}
CONVERSATION_ID = {
    "name": "conversation_id",
    "in": "path",
    "required": True,
    "description": "One of the account's conversations.",
    "schema": {"type": "string", "format": "uuid"},
    "example": CONVERSATION,
}
LIMIT = {
    "name": "limit",
    "in": "query",
    "description": "The most that a page holds; one of messages may end before it, by bytes.",
    "schema": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
}
CURSOR = {
    "name": "cursor",
    "in": "query",
    "description": "The `next_cursor` of the page before; empty or absent for the first page.",
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]*$"},
}

PLACE = {
    "name": "at",
    "in": "query",
    "description": "As it was: at a version (see X-Conversation-Version) or at a time (ISO 8601; in UTC "
    "where it has no offset). Without it: as it is now.",
    "schema": {"type": "string", "anyOf": [{"pattern": "^[0-9]{1,18}$"}, {"format": "date-time"}]},
}


def operation(
    name: str,
    tag: str,
    summary: str,
    answers: Mapping[str, Any],
    *,
    description: str = "",
    parameters: Sequence[Mapping[str, Any]] = (),
    body: Mapping[str, Any] | None = None,
    keyed: bool = True,
) -> dict[str, Any]:
    """One operation; its `answers` in the order of their status."""
    described: dict[str, Any] = {"operationId": name, "tags": [tag], "summary": summary}
    if description:
        described["description"] = description
    if parameters:
        described["parameters"] = [*parameters]
    if body is not None:
        described["requestBody"] = body
    if not keyed:
        described["security"] = []
    return described | {"responses": dict(sorted(answers.items()))}
