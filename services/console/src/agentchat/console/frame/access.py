"""Who may see a page and send a form; run before each handler.

Each handler has the least role that it needs (`frame.roles`); one whose role is None is for everybody.

Where nobody signs in, another site may not use that: its name may resolve to 127.0.0.1 (DNS rebinding), so
the host must be a loopback one, at any port. Litestar checks the token of each form (CSRFConfig).
"""

from typing import Any
from urllib.parse import quote, urlsplit

from litestar import Request, Response
from litestar.datastructures import Cookie
from litestar.exceptions import ClientException, NotAuthorizedException, PermissionDeniedException
from litestar.response import Redirect
from litestar.template.base import csrf_token

from agentchat.console.console_services import ConsoleServices, services_of
from agentchat.console.frame.roles import KEY, Rights, Role
from agentchat.console.frame.sessions import LOCAL, ConsoleSession
from agentchat.runtime.listening_socket import is_loopback

SIGN_IN = "/sign-in"
OPEN_PATHS = ("/static/", "/healthz", "/readyz")
_SAFE = ("GET", "HEAD")

AnyRequest = Request[Any, Any, Any]


async def check(request: AnyRequest) -> Response[Any] | None:
    """Give the request its session, or answer in the handler's place.

    Raises HTTPException, DatabaseUnavailable.
    """
    if request.url.path.startswith(OPEN_PATHS):
        return None
    services = services_of(request)
    _check_host(request, services)
    if "%00" in request.url.query:
        raise ClientException("An address has no NUL character.")
    needed: Role | None = request.route_handler.opt.get(KEY, Role.OWNER)
    if needed is None:
        return None
    token = request.cookies.get(cookie_name(services), "")
    session = visitor(request) if services.sessions.are_open else await services.sessions.find(token)
    if session is None:
        return _signed_out(request, was_in=bool(token))
    request.state.session = session
    if session.role < needed:
        raise PermissionDeniedException(
            f"This needs the role {needed.word}, and you are signed in as {session.role.word}."
        )
    if request.method in _SAFE:
        request.state.waiting = await services.badges.approvals()
    return None


def visitor(request: AnyRequest) -> ConsoleSession | None:
    """Return the session of whoever asks; None if nobody is signed in.

    Where nobody signs in, each browser is a session, by its token of forms.
    """
    session: ConsoleSession | None = getattr(request.state, "session", None)
    if session is None and services_of(request).sessions.are_open:
        return ConsoleSession(form_token(request), LOCAL, Role.OWNER)
    return session


def session_of(request: AnyRequest) -> ConsoleSession:
    session = request.state.session
    assert isinstance(session, ConsoleSession)
    return session


def rights_of(request: AnyRequest) -> Rights:
    """Return what the person of a request may use."""
    session = visitor(request)
    return Rights(None if session is None else session.role, request.app.state.roles)


def form_token(request: AnyRequest) -> str:
    """Return what each form of this browser holds: another site cannot know it."""
    return csrf_token({"request": request})


def _check_host(request: AnyRequest, services: ConsoleServices) -> None:
    host = request.headers.get("host", "")
    url = services.settings.console_url
    if not (is_loopback(host) if url is None else host.lower() == urlsplit(url).netloc.lower()):
        raise PermissionDeniedException(
            f"Unknown host {host[:80]!r}; open the console at {url or 'localhost'}."
        )


def _signed_out(request: AnyRequest, *, was_in: bool) -> Response[Any]:
    """Lead to the sign-in, and from there back; to the provider at once if a session has ended.

    Raises NotAuthorizedException for a form or a part of a page, which stays with what is written on it.
    """
    if request.headers.get("hx-request") or request.method not in _SAFE:
        raise NotAuthorizedException(
            "Your session has ended, and nothing was changed. What you wrote is kept in this tab: sign in, "
            "and open the page again."
        )
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    way = f"{SIGN_IN}/begin" if was_in and services_of(request).provider is not None else SIGN_IN
    return Redirect(f"{way}?next={quote(here)}", status_code=303)


def cookie_name(services: ConsoleServices, name: str = "agentchat_console") -> str:
    """With the prefix, a browser takes a cookie from this very host over TLS alone."""
    return f"__Host-{name}" if is_secure(services) else name


def is_secure(services: ConsoleServices) -> bool:
    return (services.settings.console_url or "").startswith("https:")


def session_cookie(services: ConsoleServices, token: str | None) -> Cookie:
    """Return the cookie of a session; None ends it. No script and no form of another site gets it."""
    return Cookie(
        cookie_name(services),
        value=token or "",
        max_age=0 if token is None else None,
        path="/",
        httponly=True,
        samesite="lax",
        secure=is_secure(services),
    )
