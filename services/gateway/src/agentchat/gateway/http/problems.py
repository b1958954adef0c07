"""Define refusals, and format them as application/problem+json (RFC 9457)."""

from collections.abc import Callable, Sequence

import msgspec

from agentchat.contracts import errors, http, wire
from agentchat.contracts.admin_errors import (
    AdminError,
    Conflict,
    Disallowed,
    Invalid,
    NotFound,
    Unavailable,
    Use,
)
from agentchat.contracts.values import ApprovalNeeded


class Refusal(Exception):  # noqa: N818 - an outcome
    """The request ends with the status of `code`. `detail` says what is wrong with this one request.

    `approvals` are those that its run, or its conversation, waits for; `running_trace_id` is the run under
    way in it.
    """

    def __init__(
        self,
        code: str,
        detail: str | None = None,
        *,
        fields: Sequence[http.FieldError] = (),
        retry_after: int | None = None,
        headers: dict[str, str] | None = None,
        approvals: Sequence[ApprovalNeeded] = (),
        running_trace_id: str | None = None,
    ) -> None:
        self.row = errors.get_error_code(code)
        super().__init__(self.row.code)
        self.detail = detail or self.row.advice
        self.fields = tuple(fields)
        self.retry_after = retry_after if retry_after is not None else self.row.retry_after
        self.headers = headers or {}
        self.approvals = tuple(approvals)
        self.running_trace_id = running_trace_id


class ClientDisconnected(Exception):  # noqa: N818 - an outcome
    """The client has closed the connection; a run that was published continues."""


class RequestIds(msgspec.Struct, frozen=True):
    """The ids that a refusal may name.

    `conversation_id` is set once the user's message is saved, or may be: the conversation can be read and
    deleted.
    """

    trace_id: str
    conversation_id: str | None = None


class FormattedRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal as it goes out. `challenge` goes with a 401 that has none of its own (RFC 9110, 11.6.1)."""

    media_type: str
    body: bytes
    challenge: str = 'Bearer realm="agent-chat"'
    headers: dict[str, str] = {}


RefusalFormat = Callable[[Refusal, RequestIds], FormattedRefusal]


def format_problem(refusal: Refusal, ids: RequestIds) -> FormattedRefusal:
    """Format a refusal as a problem document."""
    document = http.build_problem(
        refusal.row.code, refusal.detail, ids.trace_id, refusal.fields, refusal.approvals
    )
    document = msgspec.structs.replace(
        document, conversation_id=ids.conversation_id, running_trace_id=refusal.running_trace_id
    )
    return FormattedRefusal(
        media_type="application/problem+json",
        body=wire.encode(document),
        challenge='X-Api-Key realm="agent-chat"',
    )


def build_refusal_headers(refusal: Refusal, worded: FormattedRefusal) -> dict[str, str]:
    """Return the headers of the answer, except those that every answer has."""
    headers = {"content-type": worded.media_type, **worded.headers, **refusal.headers}
    if refusal.retry_after is not None:
        headers["retry-after"] = str(refusal.retry_after)
    if refusal.row.status == 401:
        headers.setdefault("www-authenticate", worded.challenge)
    return headers


def build_field_refusal(field: str, message: str) -> Refusal:
    """Build the refusal of one field, parameter or header: 400."""
    return Refusal(
        "invalid_request", f"{field}: {message}", fields=[http.FieldError(field=field, message=message)]
    )


def build_conversation_not_found() -> Refusal:
    """Build the refusal of a request about a conversation: 404. Chats get the advice of the error's code."""
    return Refusal("conversation_not_found", "Check its id: there is no such conversation.")


def build_too_large(field: str, max_bytes: int) -> Refusal:
    """Build the refusal of a text that is too long: 413."""
    message = f"This is longer than {max_bytes} bytes of UTF-8."
    fields = [http.FieldError(field=field, message=message)]
    return Refusal("message_too_large", f"{field}: {message}", fields=fields)


def check_size(field: str, text: str, max_bytes: int) -> None:
    """Raise Refusal, 413, where `text` has more than `max_bytes` of UTF-8."""
    if len(text) * 4 > max_bytes and len(text.encode()) > max_bytes:
        raise build_too_large(field, max_bytes)


def replace_nul(text: str) -> str:
    """Replace NUL, which Postgres cannot store."""
    return text.replace("\x00", "\ufffd")


def make_printable(name: str) -> str:
    """Return a caller's own name for a field as it can be sent back: short, and with a UTF-8 form."""
    return name[:100].encode("utf-8", "replace").decode()


def to_refusal(error: AdminError) -> Refusal:
    """Translate an error of a library."""
    match error:
        case NotFound():
            return Refusal("not_found", f"There is {error}.")
        case Conflict():
            return Refusal("conflict", _to_sentence(error.reason), fields=[_use(use) for use in error.uses])
        case Invalid():
            name = "cursor" if error.field == "after" else error.field  # libraries page by `after`
            field = http.FieldError(field=make_printable(name), message=error.reason)
            return Refusal("invalid_request", f"{error}.", fields=[field] if error.field else [])
        case Disallowed():
            return Refusal(error.code, error.reason)
        case Unavailable():
            return Refusal("overloaded", _to_sentence(str(error)))
        case _:
            raise error


def _use(use: Use) -> http.FieldError:
    names = f": {', '.join(use.names)}" if use.names else ""
    more = ", ..." if use.names and use.count > len(use.names) else ""
    return http.FieldError(field=use.kind.replace(" ", "_"), message=f"{use.count}{names}{more}")


def _to_sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."
