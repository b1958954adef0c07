"""What operations answer where they refuse: by status, with an example a code, and headers."""

import json
from collections.abc import Mapping
from typing import Any

from contracts import errors, http
from contracts.examples import TRACE
from gateway.http import problem_responses
from gateway.http.problem_responses import Wording

TRACE_ID = {
    "X-Trace-Id": {
        "required": True,
        "description": "The trace of this request.",
        "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
        "example": TRACE,
    }
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
"""What any operation may answer."""
OF_BODIES = ("unsupported_media_type", "message_too_large")
"""What one may answer that reads a body."""


def refusals(
    *codes: str,
    headers: Mapping[str, Any] | None = None,
    wording: Wording,
) -> dict[str, Any]:
    """An answer for each status that these codes have, with an example a code; `headers` from 403 on up.

    `wording` is that of the address.
    """
    answers: dict[str, Any] = {}
    for row in sorted((errors.error(code) for code in dict.fromkeys(codes)), key=lambda row: row.status):
        status = str(row.status)
        if status not in answers:
            more = (headers or {}) if row.status != 401 else {}
            answers[status] = _refusal(row.status, more)
        answers[status]["description"] += ("; " if answers[status]["description"] else "") + row.title
        media_type, example = _example(row.code, wording.words)
        schema = {"type": "string"} if wording.body is str else wording.body
        content = answers[status]["content"].setdefault(media_type, {"schema": schema, "examples": {}})
        content["examples"][row.code] = {"value": example}
    return answers


def elsewhere(code: str, wording: Wording) -> dict[str, Any]:
    """The answer where there is no operation."""
    (answer,) = refusals(code, wording=wording).values()
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


def _example(code: str, words: problem_responses.Words) -> tuple[str, Any]:
    field = _FIELDS.get(code)
    refusal = problem_responses.Refusal(code)
    if field is not None:
        reason = "This must be a whole number from 1 to 100." if field == "limit" else "It is too long."
        refusal = problem_responses.Refusal(
            code, f"{field}: {reason}", fields=[http.FieldError(field=field, message=reason)]
        )
    headers, data = words(refusal, TRACE)
    media_type = dict(headers)[b"content-type"].decode()
    return media_type, data.decode() if media_type.startswith("text/") else json.loads(data)
