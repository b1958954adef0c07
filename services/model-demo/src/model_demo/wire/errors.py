"""Errors as the APIs answer them: one exception, one table of status and type."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

R = TypeVar("R")

STATUSES = {
    400: ("invalid_request_error", "The request was refused, as the model name asks."),
    401: ("authentication_error", "invalid x-api-key"),
    402: ("billing_error", "Your credit balance is too low to access the API."),
    403: ("permission_error", "Your API key does not have permission to use the specified resource."),
    404: ("not_found_error", "Not found"),
    405: ("invalid_request_error", "Method Not Allowed"),
    408: ("timeout_error", "The request body did not arrive in time."),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your account's rate limit. Please try again later."),
    500: ("api_error", "The server had an error while processing your request."),
    504: ("timeout_error", "The request timed out."),
    529: ("overloaded_error", "Overloaded"),
}
"""HTTP status to `error.type` (platform.claude.com/docs/en/api/errors) and its usual words."""


class DemoApiError(Exception):
    """A request is answered with `status` and the error's body. `retry_after`: seconds, sent as a header.

    `param` and `code` are for OpenAI's wire: the field's path, and a short name of the problem.
    """

    def __init__(
        self,
        status: int,
        message: str = "",
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        self.status = status
        self.message = message or STATUSES[status][1]
        self.param = param
        self.code = code
        self.retry_after = retry_after
        super().__init__(f"{status}: {self.message}")


def invalid(message: str, param: str | None = None, code: str | None = None) -> DemoApiError:
    """A 400: the request itself is wrong, and `message` names the field."""
    return DemoApiError(400, message, param, code)


def too_long(tokens: int, most: int) -> DemoApiError:
    """A 400: the prompt does not fit into the context window."""
    return invalid(
        f"prompt is too long: {tokens} tokens > {most} maximum", "messages", "context_length_exceeded"
    )


_FIELD = re.compile(r"Object (?P<kind>missing|contains unknown)(?: required)? field `(?P<field>[^`]+)`")


class Misfit(msgspec.Struct, frozen=True):
    """Why a body is no request: `kind` is missing, unknown, wrong or broken (no JSON), `path` the field's, as
    `a.b[0].c`."""

    kind: str
    path: str
    reason: str

    @classmethod
    def of(cls, error: msgspec.ValidationError) -> "Misfit":
        reason, _, path = str(error).partition(" - at `$")
        path = path.rstrip("`").removeprefix(".")
        match = _FIELD.match(reason)
        if match is None:
            return cls("wrong", path, reason)
        return cls(match["kind"].split()[-1], ".".join(filter(None, (path, match["field"]))), reason)


def read(raw: bytes, kind: type[R], without_effect: set[str], refused: Callable[[Misfit], DemoApiError]) -> R:
    """A body as `kind`; fields `without_effect` are not looked at. Raises what `refused` makes of one that is
    none."""
    try:
        body = msgspec.json.decode(raw, type=dict[str, Any])
        return msgspec.convert({n: value for n, value in body.items() if n not in without_effect}, kind)
    except msgspec.ValidationError as error:
        misfit = Misfit.of(error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        misfit = Misfit("broken", "", "")
    raise refused(misfit)
