"""Render errors as pages that say what happened and what to do."""

from typing import Any

from litestar import Response
from litestar.exceptions import HTTPException
from litestar.response import Template

from agentchat.bus.errors import BusUnavailable
from agentchat.console.shared.access_check import AnyRequest, is_local_path
from agentchat.console.shared.rendering import render_page
from agentchat.contracts.admin_errors import AdminError, Conflict, Disallowed, Invalid, NotFound
from agentchat.conversations.errors import UnreadableEvent
from agentchat.runtime import logs, tracing
from agentchat.runtime.postgres import DatabaseUnavailable

_STATUS: dict[type[AdminError], int] = {Disallowed: 403, NotFound: 404, Conflict: 409, Invalid: 400}
_TITLES = {
    400: "Invalid request",
    401: "Signed out",
    403: "Not allowed",
    404: "Not found",
    405: "Not found",
    409: "Changed in the meantime",
    410: "Erased",
    413: "Too large",
    429: "Too many requests",
    503: "Temporarily unavailable",
}


def render_problem(request: AnyRequest, status: int, reason: str) -> Template:
    """Render a page that says in one sentence what is wrong, with the trace id.

    For htmx, render a part. It replaces the requested part or, if a form was sent, the session has ended or
    too many streams are open, appears above the page, which stays as it is.
    """
    is_part, is_read = bool(request.headers.get("hx-request")), request.method == "GET"
    address = f"{request.url.path}?{request.url.query}"
    answer = render_page(
        request,
        "parts/problem.html" if is_part else "problem.html",
        status_code=status,
        title=_TITLES.get(status, "Internal error"),
        reason=reason,
        signed_out=status == 401,
        again=address if is_read and is_local_path(address) else None,
        trace_id=tracing.get_trace_id(),
    )
    if is_part and (status in (401, 429) or not is_read):
        answer.headers.update({"hx-retarget": "#trouble", "hx-reswap": "innerHTML"})
    return answer


def _render_http_error(request: AnyRequest, error: HTTPException) -> Response[Any]:
    reason = error.detail
    if error.status_code == 404 and reason in ("", "Not Found"):
        reason = f"There is no page {request.url.path[:100]}."
    elif reason.startswith("CSRF"):
        reason = (
            "This form was sent by another site, or its page is from an earlier visit. Nothing was changed: "
            "reload the page and send it again. What you wrote is kept in this tab."
        )
    return render_problem(request, error.status_code, reason)


def _render_admin_error(request: AnyRequest, error: AdminError) -> Response[Any]:
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 503)
    return render_problem(request, status, str(error))


def _render_unavailable(request: AnyRequest, error: Exception) -> Response[Any]:
    logs.get_logger("console").warning("unavailable", reason=str(error))
    away = "The database" if isinstance(error, DatabaseUnavailable) else "NATS"
    return render_problem(request, 503, f"{away} does not answer: {error}")


def _render_unreadable(request: AnyRequest, error: UnreadableEvent) -> Response[Any]:
    return render_problem(request, 409, f"This release of the console cannot read the conversation: {error}")


def _render_failure(request: AnyRequest, error: Exception) -> Response[Any]:
    """Log an unexpected error and render a page for it."""
    logs.get_logger("console").error("request_failed", exc_info=error)
    return render_problem(
        request,
        500,
        "The console has an internal error; its log has the details. Please report it with the trace id.",
    )


HANDLERS: dict[type[Exception] | int, Any] = {
    HTTPException: _render_http_error,
    AdminError: _render_admin_error,
    DatabaseUnavailable: _render_unavailable,
    BusUnavailable: _render_unavailable,
    UnreadableEvent: _render_unreadable,
    Exception: _render_failure,
}
