"""The one table of error codes: problem+json bodies and stream `error` events use the same codes.

Source: docs/change/design.md 6. A `retry_after` is sent in Retry-After, in seconds, where none is computed.
"""

import msgspec


class Code(msgspec.Struct, frozen=True):
    """One row: the code, the HTTP status it has before a stream, a title, and what a caller should do."""

    code: str
    status: int
    title: str
    advice: str
    retry_after: int | None = None


_ROWS = (
    Code("missing_api_key", 401, "No API key", "Send the account's key in the X-Api-Key header."),
    Code("invalid_api_key", 401, "Invalid API key", "The key is unknown, revoked or disabled."),
    Code("invalid_admin_token", 401, "No valid admin token", "Send Authorization: Bearer and the token."),
    Code("plan_upgrade_required", 403, "The plan does not include this", "Upgrade, or use another form."),
    # Not 409 or 429, which clients try again by themselves.
    Code("storage_full", 403, "The account may store no more", "Delete conversations, or upgrade."),
    Code("agent_not_found", 404, "No such agent", "Check X-Agent-Id: the account has no such agent."),
    Code("conversation_not_found", 404, "No such conversation", "Leave conversation_id out to start one."),
    Code("not_found", 404, "Not found", "Check the address."),
    Code("method_not_allowed", 405, "Method not allowed", "Use one of the methods in Allow."),
    Code("invalid_request", 400, "Invalid request", "Mend the fields that `errors` names."),
    Code("address_refused", 400, "The address may not be called", "Give a public address, by https."),
    Code("unsupported_media_type", 415, "Unsupported media type", "Send Content-Type: application/json."),
    Code("message_too_large", 413, "Message too large", "Shorten the message or the body."),
    Code("conversation_too_large", 413, "The conversation is too large", "Fork it at an earlier place."),
    Code(
        "conversation_full",
        409,
        "The conversation is full",
        "Start a new one with a summary, or fork this one at an earlier message; it can still be read.",
    ),
    Code("conflict", 409, "In use or exists already", "See `errors`; force=true where all of it is to go."),
    Code("conversation_busy", 409, "The conversation is busy", "Wait for the reply under way.", 1),
    Code(
        "idempotency_conflict",
        409,
        "Idempotency key used before",
        "Use a new key for another request.",
    ),
    Code("run_ended", 409, "The run has ended", "Read the reply from the conversation."),
    Code("cancelled", 409, "The run was cancelled", "Send a new message to go on."),
    Code("approval_required", 409, "A person has to approve a tool call", "Decide about `approvals`."),
    Code(
        "approval_pending",
        409,
        "The conversation waits for an approval",
        "Decide about `approvals`, or cancel the run that waits.",
    ),
    Code("approval_forbidden", 403, "Not yours to approve", "Ask an operator of this service to decide."),
    Code("approval_decided", 409, "It was decided otherwise", "Read the approval."),
    Code("approval_expired", 410, "It is too late to decide", "Send a new message to go on."),
    Code("cursor_expired", 410, "The cursor has expired", "Start again without a cursor."),
    Code("rate_limited", 429, "Too many requests", "Wait as long as Retry-After says.", 1),
    Code("quota_exceeded", 429, "The month's tokens are used up", "Wait for the new month, or upgrade.", 60),
    Code("provider_error", 502, "The model provider failed", "Try again; if it stays, check the agent."),
    Code("provider_refused", 502, "The model provider refused", "Change the message or the agent."),
    Code("context_too_long", 400, "The conversation is too long for the model", "Start a new one."),
    Code("output_invalid", 502, "The reply is not the JSON asked for", "Try again or mend the schema."),
    Code("provider_overloaded", 503, "The model provider is overloaded", "Try again with back-off.", 5),
    Code("provider_timeout", 504, "The model provider did not answer in time", "Try again with back-off."),
    Code("deadline_exceeded", 504, "The run took too long", "Ask for less in one message."),
    Code("generation_interrupted", 502, "The reply was interrupted", "Send the message again."),
    Code("server_shutdown", 503, "This server is stopping", "Read the reply from the conversation.", 1),
    Code("overloaded", 503, "The service is overloaded", "Try again with back-off.", 2),
    Code("internal_error", 500, "Something went wrong here", "Try again; name the trace_id when you ask."),
)

ERRORS: dict[str, Code] = {row.code: row for row in _ROWS}
"""Every code of the service, in the order of the documentation."""


def error(code: str) -> Code:
    """The row of `code`, or that of `internal_error` for a code that the table does not hold."""
    return ERRORS.get(code, ERRORS["internal_error"])
