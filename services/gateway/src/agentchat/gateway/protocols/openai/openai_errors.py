"""Format refusals as OpenAI does: `{"error": {message, type, param, code}}`.

Its SDKs retry 408, 409, 429 and 5xx twice, unless the response has `x-should-retry: false`.
"""

import msgspec

from agentchat.contracts import errors, wire
from agentchat.contracts.values import ApprovalNeeded
from agentchat.gateway.http.problems import FormattedRefusal, Refusal, RequestIds
from agentchat.gateway.protocols.openai.completion_types import ErrorObject, OpenAIError

# The SDKs try again by status. For these codes another try may help. Other codes with such a status end a run
# whose model calls were paid for, and which the orchestrator tried again if that helps (`provider_error`,
# `output_invalid`), or wait for something that no retry brings.
RETRYABLE = frozenset(
    {
        *("conversation_busy", "rate_limited", "user_rate_limited", "overloaded"),
        *("server_shutdown", "internal_error"),
        *("provider_overloaded", "provider_timeout", "generation_interrupted"),
    }
)
# Clients branch on these words of OpenAI's; all other codes are our own.
_CODES = {
    "agent_not_found": "model_not_found",
    "budget_exceeded": "insufficient_quota",
    "context_too_long": "context_length_exceeded",
    "quota_exceeded": "insufficient_quota",
    "rate_limited": "rate_limit_exceeded",
    "user_budget_exceeded": "insufficient_quota",
    "user_quota_exceeded": "insufficient_quota",
    "user_rate_limited": "rate_limit_exceeded",
}
# Replaces advice of the table that names headers, fields and ways of our own API.
_ADVICE = {
    "missing_api_key": "Send the account's key as Authorization: Bearer.",
    "agent_not_found": "Use an agent's id or its unique name: see GET /openai/v1/models.",
    "conversation_not_found": "The conversation was deleted just now: send the request again.",
    "approval_pending": "Decide about the tool call by GET /v1/approvals, then send the request again.",
    "invalid_request": "Fix the field named in `param`.",
    "context_too_long": "Show less of the conversation.",
    "internal_error": "Try again; name the answer's X-Trace-Id when you ask.",
}
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def format_openai_error(refusal: Refusal, ids: RequestIds) -> FormattedRefusal:
    """Format a refusal as OpenAI does."""
    param = refusal.fields[0].field if refusal.fields else None
    if refusal.row.code == "agent_not_found":
        param = "model"
    has_own_detail = refusal.detail != refusal.row.advice
    message = refusal.detail if has_own_detail else _ADVICE.get(refusal.row.code, refusal.detail)
    error = _build_error(refusal.row, message, param, refusal.approvals)
    if ids.conversation_id is not None:
        error = msgspec.structs.replace(error, conversation_id=ids.conversation_id)
    if refusal.running_trace_id is not None:
        error = msgspec.structs.replace(error, running_trace_id=refusal.running_trace_id)
    return FormattedRefusal(
        media_type="application/json",
        body=wire.encode(OpenAIError(error=error)),
        headers={"x-should-retry": "false"} if _is_final(refusal.row) else {},
    )


def build_error_event(code: str, message: str, approvals: tuple[ApprovalNeeded, ...] = ()) -> OpenAIError:
    """Build the last event of a stream that failed. The code must be one of the table of errors."""
    row = errors.get_error_code(code)
    return OpenAIError(error=_build_error(row, message or row.title, None, approvals))


def _is_final(row: errors.ErrorCode) -> bool:
    """Return True if the SDKs would retry although no retry helps."""
    return (row.status in (408, 409, 429) or row.status >= 500) and row.code not in RETRYABLE


def _build_error(
    row: errors.ErrorCode, message: str, param: str | None, approvals: tuple[ApprovalNeeded, ...]
) -> ErrorObject:
    kind = _TYPES.get(row.status, "invalid_request_error" if row.status < 500 else "server_error")
    kind = "insufficient_quota" if _CODES.get(row.code) == "insufficient_quota" else kind
    return ErrorObject(
        message=message,
        type=kind,
        param=param,
        code=_CODES.get(row.code, row.code),
        approvals=approvals or msgspec.UNSET,
    )
