"""What operations answer: successes, refusals by their codes with an example each, and their headers."""

import json
from collections.abc import Mapping
from typing import Any

from contracts import errors, http
from contracts.examples import TRACE
from gateway import problems
from gateway.openapi.schemas import ref

TRACE_ID = {
    "X-Trace-Id": {
        "required": True,
        "description": "The trace of this request.",
        "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
        "example": TRACE,
    }
}
RATE_LIMIT = {
    "RateLimit-Policy": {
        "description": "The numbers of the plan (IETF draft-ietf-httpapi-ratelimit-headers), if any.",
        "schema": {"type": "string"},
        "example": '"minute";q=600;w=60, "runs";q=20;qu="concurrent-requests"',
    },
    "RateLimit": {
        "description": "What is left of them, and in how many seconds there is more.",
        "schema": {"type": "string"},
        "example": '"minute";r=599;t=1, "runs";r=19',
    },
}
RETRY_AFTER = {
    "description": "Seconds to wait before the next try.",
    "schema": {"type": "integer", "minimum": 1},
    "example": 1,
}
_CHALLENGE = {
    "required": True,
    "description": "The scheme that is asked for.",
    "schema": {"type": "string"},
    "example": 'X-Api-Key realm="agent-chat"',
}
_ALLOW = {
    "required": True,
    "description": "The methods that the address has.",
    "schema": {"type": "string"},
    "example": "POST",
}
_FIELDS = {"invalid_request": "limit", "message_too_large": "message"}

EVERYWHERE = ("invalid_request", "overloaded", "internal_error")
KEYED = ("missing_api_key", "invalid_api_key", *EVERYWHERE)
"""What any operation that needs a key may answer."""

READING = (*KEYED, "rate_limited")
"""What any of them may answer beside the two of chat."""


def success(
    description: str,
    schema: Mapping[str, Any] | None = None,
    examples: Mapping[str, Any] | None = None,
    *,
    status: int = 200,
    media_type: str = "application/json",
    headers: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The answer of an operation that did what was asked; without a schema it has no body."""
    answer: dict[str, Any] = {"description": description, "headers": {**TRACE_ID, **(headers or {})}}
    if schema is not None:
        named = {name: {"value": value} for name, value in (examples or {}).items()}
        answer["content"] = {media_type: {"schema": schema, "examples": named}}
    return {str(status): answer}


def refusals(
    *codes: str,
    headers: Mapping[str, Any] | None = None,
    words: problems.Words = problems.head_of,
    schema: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """An answer for each status that these codes have, with an example a code; `headers` from 403 on up.

    `words` is how they are worded, and `schema` what that body is, where that is not our own.
    """
    answers: dict[str, Any] = {}
    for row in sorted((errors.error(code) for code in dict.fromkeys(codes)), key=lambda row: row.status):
        status = str(row.status)
        if status not in answers:
            more = (headers or {}) if row.status != 401 else {}
            answers[status] = _refusal(row.status, more)
        answers[status]["description"] += ("; " if answers[status]["description"] else "") + row.title
        media_type, example = _example(row.code, words)
        content = answers[status]["content"].setdefault(
            media_type, {"schema": schema or ref(http.Problem), "examples": {}}
        )
        content["examples"][row.code] = {"value": example}
    return answers


def elsewhere(code: str) -> dict[str, Any]:
    """The answer where there is no operation."""
    (answer,) = refusals(code).values()
    assert isinstance(answer, dict)
    return answer


def _refusal(status: int, more: Mapping[str, Any]) -> dict[str, Any]:
    headers: dict[str, Any] = {**TRACE_ID, **more}
    if status == 401:
        headers["WWW-Authenticate"] = _CHALLENGE
    if status in (429, 503):
        headers["Retry-After"] = {**RETRY_AFTER, "required": True}
    if status == 409:
        headers["Retry-After"] = RETRY_AFTER
    if status == 405:
        headers["Allow"] = _ALLOW
    return {"description": "", "headers": headers, "content": {}}


def _example(code: str, words: problems.Words) -> tuple[str, Any]:
    field = _FIELDS.get(code)
    refusal = problems.Refusal(code)
    if field is not None:
        reason = "This must be a whole number from 1 to 100." if field == "limit" else "It is too long."
        refusal = problems.Refusal(
            code, f"{field}: {reason}", fields=[http.FieldError(field=field, message=reason)]
        )
    headers, data = words(refusal, TRACE)
    return dict(headers)[b"content-type"].decode(), json.loads(data)
