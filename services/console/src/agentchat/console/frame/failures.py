"""Errors as pages: what it was, and what to do next."""

from typing import Any

from litestar import Response
from litestar.exceptions import HTTPException
from litestar.response import Template

from agentchat.bus.errors import BusUnavailable
from agentchat.console.frame.access import AnyRequest
from agentchat.console.frame.rendering import page
from agentchat.contracts.admin_errors import AdminError, Conflict, Invalid, NotFound
from agentchat.conversations.errors import UnreadableEvent
from agentchat.runtime import logs, telemetry
from agentchat.runtime.postgres import DatabaseUnavailable

_STATUS: dict[type[AdminError], int] = {NotFound: 404, Conflict: 409, Invalid: 400}
_TITLES = {
    400: "That cannot be done as asked",
    401: "Signed out",
    403: "Refused",
    404: "Not found",
    405: "Not found",
    409: "That has changed meanwhile",
    410: "Erased",
    413: "Too large",
    429: "Too many at once",
    503: "A part of the service does not answer",
}


def problem(request: AnyRequest, status: int, reason: str) -> Template:
    """A page that says what is wrong, in one sentence, with the trace's id.

    Where htmx asks, a part: in the place of what was asked for, or, where a form was sent, the session has
    ended or there are too many streams, above a page that stays as it is.
    """
    is_part, is_read = bool(request.headers.get("hx-request")), request.method == "GET"
    answer = page(
        request,
        "parts/problem.html" if is_part else "problem.html",
        status_code=status,
        title=_TITLES.get(status, "Something went wrong here"),
        reason=reason,
        signed_out=status == 401,
        again=f"{request.url.path}?{request.url.query}" if is_read else None,
        trace_id=telemetry.get_trace_id(),
    )
    if is_part and (status in (401, 429) or not is_read):
        answer.headers.update({"hx-retarget": "#trouble", "hx-reswap": "innerHTML"})
    return answer


def _router_error(request: AnyRequest, error: HTTPException) -> Response[Any]:
    reason = error.detail
    if error.status_code == 404 and reason in ("", "Not Found"):
        reason = f"There is no page {request.url.path[:100]}."
    elif reason.startswith("CSRF"):
        reason = (
            "This form was sent by another site, or its page is of an earlier visit. Nothing was changed: "
            "load the page again. What you wrote is kept in this tab."
        )
    return problem(request, error.status_code, reason)


def _admin_error(request: AnyRequest, error: AdminError) -> Response[Any]:
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 503)
    return problem(request, status, str(error))


def _part_is_away(request: AnyRequest, error: Exception) -> Response[Any]:
    logs.get_logger("console").warning("unavailable", reason=str(error))
    away = "The database" if isinstance(error, DatabaseUnavailable) else "NATS"
    return problem(request, 503, f"{away} does not answer: {error}")


def _unreadable(request: AnyRequest, error: UnreadableEvent) -> Response[Any]:
    return problem(request, 409, f"This release of the console cannot read the conversation: {error}")


def _failure(request: AnyRequest, error: Exception) -> Response[Any]:
    """A fault of ours: the log has it."""
    logs.get_logger("console").error("request_failed", exc_info=error)
    return problem(request, 500, "This is a fault of the console; its log has the details.")


HANDLERS: dict[type[Exception] | int, Any] = {
    HTTPException: _router_error,
    AdminError: _admin_error,
    DatabaseUnavailable: _part_is_away,
    BusUnavailable: _part_is_away,
    UnreadableEvent: _unreadable,
    Exception: _failure,
}
