"""Who may see a page and send a form; run before each handler.

The console is open to everybody on this machine. Another site may not use that: its name may resolve to
127.0.0.1 (DNS rebinding), so the host must be a loopback one; and a form has to have the session's token and
come from our own pages.
"""

import re
from typing import Any

from litestar import Request
from litestar.exceptions import PermissionDeniedException

from console.console_services import services_of
from console.frame.sessions import COOKIE, ConsoleSession

TOKEN_FIELD = "form_token"  # noqa: S105 - the name of a field
_TOKEN_HEADER = "x-form-token"  # noqa: S105 - the name of a header
_SAFE = ("GET", "HEAD")
_OPEN_PATHS = ("/static/", "/healthz", "/readyz")
_LOOPBACK = re.compile(r"(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)

AnyRequest = Request[Any, Any, Any]


async def check(request: AnyRequest) -> None:
    """Gives the request its session. Raises PermissionDeniedException."""
    if request.url.path.startswith(_OPEN_PATHS):
        return
    host = request.headers.get("host", "")
    if _LOOPBACK.fullmatch(host) is None:
        raise PermissionDeniedException(f"The console has no name {host[:80]!r}; use its loopback address.")
    sessions = services_of(request).sessions
    session = sessions.opened(request.cookies.get(COOKIE, ""))
    request.state.is_new_session = session is None
    request.state.session = session or sessions.local()
    if request.method in _SAFE:
        request.state.waiting = await services_of(request).badges.approvals()
        return
    origin = request.headers.get("origin")
    if origin is not None and origin != f"{request.base_url.scheme}://{host}":
        raise PermissionDeniedException("This form was sent by a page of another site.")
    if session is None or not sessions.is_form_token(session, await _given_token(request)):
        raise PermissionDeniedException("This form is of another session. Load its page again.")


async def _given_token(request: AnyRequest) -> str:
    header = request.headers.get(_TOKEN_HEADER)
    if header is not None:
        return header
    return str((await request.form()).get(TOKEN_FIELD, ""))


def session_of(request: AnyRequest) -> ConsoleSession:
    session = request.state.session
    assert isinstance(session, ConsoleSession)
    return session
