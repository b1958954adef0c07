"""Turn HTTP responses into values or errors. Pure. Header names are lower case, as httpx has them."""

import email.utils
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import TypeVar

import msgspec

from agentchat.client.errors import ApiError, FieldError, InvalidResponse, choose_error_class
from agentchat.client.models import Approval, Reply

T = TypeVar("T")

TRACE_HEADER = "x-trace-id"


class _Problem(msgspec.Struct, frozen=True):
    """The parts of a problem document (RFC 9457) that we use; other servers leave some out."""

    title: str | None = None
    detail: str | None = None
    code: str | None = None
    trace_id: str | None = None
    errors: tuple[FieldError, ...] = ()
    approvals: tuple[Approval, ...] = ()
    conversation_id: str | None = None


_problem = msgspec.json.Decoder(_Problem)


class ApiResponse(msgspec.Struct, frozen=True):
    """A successful, complete response."""

    content: bytes
    trace_id: str | None

    def decode_as(self, kind: type[T]) -> T:
        """Decode the body as `kind`. Raises InvalidResponse."""
        try:
            return msgspec.json.decode(self.content, type=kind)
        except (ValueError, RecursionError) as error:
            reason = f"The answer is not the JSON that was expected: {error}"
            raise InvalidResponse(reason, self.trace_id) from error

    def reply(self) -> Reply:
        """Decode the body as a reply with its trace id. Raises InvalidResponse."""
        return msgspec.structs.replace(self.decode_as(Reply), trace_id=self.trace_id)


def check_stream(headers: Mapping[str, str]) -> None:
    """Raise InvalidResponse unless the response is an event stream."""
    media_type = headers.get("content-type", "")
    if media_type.partition(";")[0].strip().lower() != "text/event-stream":
        reason = f"The answer is not an event stream but {media_type or 'of no type'}"
        raise InvalidResponse(reason, headers.get(TRACE_HEADER))


def build_error(status: int, headers: Mapping[str, str], content: bytes) -> ApiError:
    """Build the error for a response without success."""
    try:
        problem = _problem.decode(content)
    except (ValueError, RecursionError):  # a proxy's page, or nothing
        problem = _Problem()
    return choose_error_class(status, problem.code)(
        status,
        problem.code,
        problem.detail or problem.title or _find_phrase(status),
        headers.get(TRACE_HEADER) or problem.trace_id,
        problem.errors,
        retry_after(headers),
        problem.approvals,
        problem.conversation_id,
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait by Retry-After (RFC 9110, 10.2.3); None if absent or malformed.

    A date is compared with the response's own Date, so that a wrong local clock does no harm.
    """
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        until = email.utils.parsedate_to_datetime(text)
        since = email.utils.parsedate_to_datetime(headers.get("date", ""))
        return max(0.0, math.ceil((until - since).total_seconds()))
    except (ValueError, TypeError):  # TypeError: one of them names no time zone
        return None


def _find_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown status"
