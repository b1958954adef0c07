"""Define the errors of the client. All are `AgentChatError`.

    AgentChatError
    ├── Misconfigured            no key, no address, or one that cannot be right
    ├── ConnectionFailed         no complete response: not reached, cut, or too slow
    ├── InvalidResponse          a response that is not what the API describes
    ├── ChatError                the stream ended with an `error` event
    ├── StreamInterrupted        the stream ended without `done` or `error`
    └── ApiError                 the service refused, with a status and a code
        ├── InvalidRequest       400, 405, 410, 413, 415, 422
        ├── AuthenticationFailed 401
        ├── PlanUpgradeRequired  403 plan_upgrade_required
        ├── StorageFull          403 storage_full
        ├── NotFound             404
        ├── Conflict             409
        ├── RateLimited          429
        └── ServerFailed         5xx

Constructors pass their fields to `Exception` in order, so that every error survives pickling.
"""

# ruff: noqa: N818 - named by outcome

import msgspec

from agentchat.client.models import Approval


class FieldError(msgspec.Struct, frozen=True, kw_only=True):
    """One field that is wrong: `field` is its name or JSON path, or a header's name."""

    field: str
    message: str


class AgentChatError(Exception):
    """Whatever goes wrong with the service."""


class Misconfigured(AgentChatError):
    """An argument or environment variable of the client is missing or wrong."""


class ConnectionFailed(AgentChatError):
    """No complete response arrived. Whether the service acted is unknown; the cause is chained."""

    def __str__(self) -> str:
        return f"the service did not answer: {super().__str__()}"


class InvalidResponse(AgentChatError):
    """Not what the API describes: another server's page, for example."""

    def __init__(self, reason: str, trace_id: str | None = None) -> None:
        super().__init__(reason, trace_id)
        self.reason = reason
        self.trace_id = trace_id

    def __str__(self) -> str:
        return _add_notes(self.reason, self.trace_id)


class ChatError(AgentChatError):
    """The run failed after the stream had started; `code` is one of the service's error codes.

    The message is saved: continue with `conversation_id`. With `approval_required` the run has not failed,
    but waits for `approvals`: `decide` each, then read by `events`.
    """

    def __init__(
        self,
        code: str,
        message: str,
        trace_id: str | None = None,
        conversation_id: str | None = None,
        approvals: tuple[Approval, ...] = (),
    ) -> None:
        super().__init__(code, message, trace_id, conversation_id, approvals)
        self.code = code
        self.message = message
        self.trace_id = trace_id
        self.conversation_id = conversation_id
        self.approvals = approvals

    def __str__(self) -> str:
        waiting = ", ".join(f"{each.tool} ({each.id})" for each in self.approvals)
        text = f"{self.code}: {self.message}" + (f" Waiting for approval of {waiting}." if waiting else "")
        return _add_notes(text, self.trace_id)


class StreamInterrupted(AgentChatError):
    """The stream was cut. It is not resumed: the run continues, and its reply is in the conversation.

    `conversation_id` is None if the stream ended before its first event.
    """

    def __init__(self, reason: str, trace_id: str | None = None, conversation_id: str | None = None) -> None:
        super().__init__(reason, trace_id, conversation_id)
        self.reason = reason
        self.trace_id = trace_id
        self.conversation_id = conversation_id

    def __str__(self) -> str:
        return _add_notes(f"the stream broke off, the run goes on: {self.reason}", self.trace_id)


class ApiError(AgentChatError):
    """A refusal. `code` is None if a proxy answered instead of the service.

    `retry_after` is in seconds, None if the service did not send it. `approvals` are those that the run
    or the conversation waits for. `conversation_id` is set once the message is saved in it, or may be.
    """

    def __init__(
        self,
        status: int,
        code: str | None,
        detail: str,
        trace_id: str | None = None,
        errors: tuple[FieldError, ...] = (),
        retry_after: float | None = None,
        approvals: tuple[Approval, ...] = (),
        conversation_id: str | None = None,
    ) -> None:
        super().__init__(status, code, detail, trace_id, errors, retry_after, approvals, conversation_id)
        self.conversation_id = conversation_id
        self.status = status
        self.code = code
        self.detail = detail
        self.trace_id = trace_id
        self.errors = errors
        self.retry_after = retry_after
        self.approvals = approvals

    def __str__(self) -> str:
        status = f"{self.status} {self.code}" if self.code else str(self.status)
        about = "; ".join(f"{each.field}: {each.message}" for each in self.errors) or self.detail
        return _add_notes(f"{status}: {about}", self.trace_id, self.retry_after)


class InvalidRequest(ApiError):
    """The request is wrong: `errors` names the fields."""


class AuthenticationFailed(ApiError):
    """The key is missing, unknown, revoked or disabled."""


class PlanUpgradeRequired(ApiError):
    """The account's plan does not include this."""


class StorageFull(ApiError):
    """The account's storage is full: delete conversations, or upgrade."""


class NotFound(ApiError):
    """No such agent, conversation or run, or another account's."""


class Conflict(ApiError):
    """The conversation is busy, the run has ended or was cancelled, or an idempotency key is used up."""


class RateLimited(ApiError):
    """Too many requests, or the month's tokens are used up; `retry_after` says how long to wait."""


class ServerFailed(ApiError):
    """The service, or the model's provider, failed."""


_BY_STATUS: dict[int, type[ApiError]] = {
    **dict.fromkeys((400, 405, 410, 413, 415, 422), InvalidRequest),
    401: AuthenticationFailed,
    404: NotFound,
    409: Conflict,
    429: RateLimited,
}
_BY_CODE: dict[str, type[ApiError]] = {
    "plan_upgrade_required": PlanUpgradeRequired,
    "storage_full": StorageFull,
}


def choose_error_class(status: int, code: str | None) -> type[ApiError]:
    """Return the class for a refusal; `ApiError` if there is no special one."""
    if status >= 500:
        return ServerFailed
    if status == 403:
        return _BY_CODE.get(code or "", ApiError)
    return _BY_STATUS.get(status, ApiError)


def _add_notes(text: str, trace_id: str | None, retry_after: float | None = None) -> str:
    notes = [] if retry_after is None else [f"retry after {retry_after:g} s"]
    notes += [f"trace {trace_id}"] if trace_id else []
    return f"{text} ({', '.join(notes)})" if notes else text
