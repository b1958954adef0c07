"""List the error codes, once for problem+json bodies and stream `error` events.

Source: docs/change/rules.md 5. `retry_after` is sent in Retry-After, in seconds, unless a value is computed.
"""

import msgspec


class ErrorCode(msgspec.Struct, frozen=True):
    """One row: the code, its HTTP status before a stream starts, a title, and what the caller should do."""

    code: str
    status: int
    title: str
    advice: str
    retry_after: int | None = None


_ROWS = (
    ErrorCode("missing_api_key", 401, "No API key", "Send the account's key in the X-Api-Key header."),
    ErrorCode("invalid_api_key", 401, "Invalid API key", "The key is unknown, revoked or disabled."),
    ErrorCode(
        "invalid_admin_token", 401, "No valid admin token", "Send Authorization: Bearer and the token."
    ),
    ErrorCode(
        "plan_upgrade_required", 403, "The plan does not include this", "Upgrade, or use another form."
    ),
    ErrorCode("not_allowed", 403, "Not allowed", "Use another key, or send the request without a user."),
    # Not 409 or 429, since clients retry those by themselves.
    ErrorCode("storage_full", 403, "The account's storage is full", "Delete conversations, or upgrade."),
    ErrorCode("agent_not_found", 404, "No such agent", "Check X-Agent-Id: the account has no such agent."),
    ErrorCode(
        "conversation_not_found",
        404,
        "No such conversation",
        "Check its id. To start one, leave conversation_id out.",
    ),
    ErrorCode("file_not_found", 404, "No such file", "Upload it again: its id is unknown, or it is deleted."),
    ErrorCode("not_found", 404, "Not found", "Check the method and the path."),
    ErrorCode("method_not_allowed", 405, "Method not allowed", "Use one of the methods in Allow."),
    ErrorCode("invalid_request", 400, "Invalid request", "Correct the fields that `errors` names."),
    ErrorCode("address_refused", 400, "The address is not permitted", "Use a public https address."),
    ErrorCode(
        "unsupported_media_type", 415, "Unsupported media type", "Send Content-Type: application/json."
    ),
    ErrorCode("message_too_large", 413, "Message too large", "Shorten the message or the body."),
    ErrorCode("file_too_large", 413, "The file is too large", "Send at most 32 MiB."),
    ErrorCode(
        "unsupported_attachment", 400, "The file cannot be used", "Send another file, or ask another agent."
    ),
    ErrorCode("conversation_too_large", 413, "The conversation is too large", "Fork it at an earlier point."),
    ErrorCode(
        "conversation_full",
        409,
        "The conversation is full",
        "Start a new one with a summary, or fork this one at an earlier message; it can still be read.",
    ),
    ErrorCode("conflict", 409, "In use or exists already", "See `errors`; force=true deletes all of it."),
    ErrorCode("conversation_busy", 409, "The conversation is busy", "Wait until its run has ended.", 1),
    ErrorCode(
        "idempotency_conflict",
        409,
        "Idempotency key used before",
        "Use a new key for another request.",
    ),
    ErrorCode("run_ended", 409, "The run has ended", "Read the reply from the conversation."),
    ErrorCode("cancelled", 409, "The run was cancelled", "Send a new message to go on."),
    ErrorCode("interrupted", 409, "A newer message replaced it", "Read the reply to the newer message."),
    ErrorCode("approval_required", 409, "A person has to approve a tool call", "Decide about `approvals`."),
    ErrorCode(
        "approval_pending",
        409,
        "The conversation waits for an approval",
        "Decide about `approvals`, or cancel the run that waits.",
    ),
    ErrorCode(
        "approval_forbidden",
        403,
        "Only an operator may approve",
        "Ask an operator of this service to decide.",
    ),
    ErrorCode("approval_decided", 409, "Someone else decided otherwise", "Read the approval."),
    ErrorCode("approval_expired", 410, "It is too late to decide", "Send a new message to go on."),
    ErrorCode("client_tools_required", 409, "The client must run its tools", "Send the tools' results."),
    ErrorCode(
        "tool_result_conflict",
        409,
        "No such tool call waits",
        "Send one result for each call that the run waits for, once.",
    ),
    ErrorCode("cursor_expired", 410, "The cursor has expired", "Start again without a cursor."),
    ErrorCode("rate_limited", 429, "Too many requests", "Wait as long as Retry-After says.", 1),
    ErrorCode(
        "quota_exceeded", 429, "The month's tokens are used up", "Wait for the new month, or upgrade.", 60
    ),
    ErrorCode("user_rate_limited", 429, "Too many requests of this user", "Wait for Retry-After.", 1),
    ErrorCode("user_quota_exceeded", 429, "The user's tokens are used up", "Wait for the new month.", 60),
    ErrorCode(
        *("budget_exceeded", 429, "The month's budget is spent"),
        "Wait for the new month, or ask an operator for more.",
        60,
    ),
    ErrorCode("user_budget_exceeded", 429, "The user's budget is spent", "Wait for the new month.", 60),
    ErrorCode(
        "provider_error", 502, "The model provider failed", "Try again; if it persists, check the agent."
    ),
    ErrorCode("provider_refused", 502, "The model provider refused", "Change the message or the agent."),
    ErrorCode("context_too_long", 400, "The conversation is too long for the model", "Start a new one."),
    ErrorCode(
        "output_invalid", 502, "The reply does not fit the schema", "Try again, or correct the schema."
    ),
    ErrorCode("provider_overloaded", 503, "The model provider is overloaded", "Try again with back-off.", 5),
    ErrorCode(
        "provider_timeout", 504, "The model provider did not answer in time", "Try again with back-off."
    ),
    ErrorCode("deadline_exceeded", 504, "The run took too long", "Ask for less in one message."),
    ErrorCode("generation_interrupted", 502, "The reply was interrupted", "Send the message again."),
    ErrorCode("server_shutdown", 503, "This server is stopping", "Read the reply from the conversation.", 1),
    ErrorCode("rehearsal", 503, "This rehearsal is read-only", "Use the production system.", 60),
    ErrorCode("overloaded", 503, "The service is overloaded", "Try again with back-off.", 2),
    ErrorCode("internal_error", 500, "Internal error", "Try again; report the trace_id if it persists."),
)

ERRORS: dict[str, ErrorCode] = {row.code: row for row in _ROWS}
"""Every code of the service, in the order of the documentation."""


def get_error_code(code: str) -> ErrorCode:
    """Return the row of `code`, or that of `internal_error` if the table does not hold the code."""
    return ERRORS.get(code, ERRORS["internal_error"])
