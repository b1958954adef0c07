"""Who may see a page and send a form; run before each handler.

Each handler has the least role that it needs (`frame.roles`); one whose role is None is for everybody.

Where nobody signs in, another site may not use that: its name may resolve to 127.0.0.1 (DNS rebinding), so
the host must be a loopback one. Everywhere the host is one that is ours, and a form has to come from our own
pages and to have its session's token. A form without one is shown again, never lost.
"""

from typing import Any
from urllib.parse import quote, urlsplit

from litestar import Request, Response
from litestar.datastructures import UploadFile
from litestar.exceptions import ClientException, NotAuthorizedException, PermissionDeniedException
from litestar.response import Redirect

from console.console_services import ConsoleServices, services_of
from console.frame.roles import KEY, Rights, Role
from console.frame.sessions import ConsoleSession
from runtime.listening import is_loopback

TOKEN_FIELD = "form_token"  # noqa: S105 - the name of a field
SIGN_IN = "/sign-in"
_TOKEN_HEADER = "x-form-token"  # noqa: S105 - the name of a header
_SAFE = ("GET", "HEAD")
_OPEN_PATHS = ("/static/", "/healthz", "/readyz")

AnyRequest = Request[Any, Any, Any]


class FormRefused(Exception):  # noqa: N818 - not an error of ours
    """A form of no session, or of another: what was written in it, and whether `files` were chosen."""

    def __init__(self, fields: list[tuple[str, str]], *, files: bool) -> None:
        super().__init__()
        self.fields, self.files = fields, files


class CrossSiteArrival(Exception):  # noqa: N818 - not an error of ours
    """A link of another site leads to `path`, so that the browser did not send its cookie."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path


async def check(request: AnyRequest) -> Response[Any] | None:
    """Gives the request its session, or answers in the handler's place.

    Raises FormRefused, CrossSiteArrival, HTTPException, DatabaseUnavailable.
    """
    if request.url.path.startswith(_OPEN_PATHS):
        return None
    services = services_of(request)
    _check_host(request, services)
    if "%00" in request.url.query:
        raise ClientException("An address has no NUL character.")
    sessions = services.sessions
    session = await sessions.opened(_cookie(request))
    if request.method not in _SAFE:
        _check_origin(request, services)
    needed: Role | None = request.route_handler.opt.get(KEY, Role.OWNER)
    if needed is None:
        request.state.session = session
        return None
    if session is not None and session.is_confirmed and services.role_checks is not None:
        session = await services.role_checks.current(session, await sessions.now())
    if session is None and not sessions.are_open:
        if request.method not in _SAFE:
            raise await _refused(request)
        return _signed_out(request)
    request.state.is_new_session = session is None
    request.state.session = session or sessions.local()
    _check_role(session_of(request), needed)
    if request.method in _SAFE:
        request.state.waiting = await services.badges.approvals()
    elif session is None or not sessions.is_form_token(session, await _given_token(request)):
        raise await _refused(request)
    return None


def _check_role(session: ConsoleSession, needed: Role) -> None:
    if session.role < needed:
        raise PermissionDeniedException(
            f"This needs the role {needed.word}, and you are signed in as {session.role.word}."
        )


def visitor(request: AnyRequest) -> ConsoleSession | None:
    """The session of whoever asks, also where no handler was found; None: nobody is signed in."""
    session: ConsoleSession | None = getattr(request.state, "session", None)
    sessions = services_of(request).sessions
    return sessions.local() if session is None and sessions.are_open else session


def rights_of(request: AnyRequest) -> Rights:
    """What the person of a request may use."""
    session = visitor(request)
    return Rights(None if session is None else session.role, request.app.state.roles)


def _check_host(request: AnyRequest, services: ConsoleServices) -> None:
    host = request.headers.get("host", "")
    if services.settings.console_url is None:
        is_ours = is_loopback(host)
    else:
        is_ours = host.lower() == urlsplit(services.settings.console_url).netloc.lower()
    if not is_ours:
        raise PermissionDeniedException(
            f"The console has no name {host[:80]!r}; use the address it was given."
        )


def _check_origin(request: AnyRequest, services: ConsoleServices) -> None:
    ours = urlsplit(services.settings.console_url or f"http://{request.headers.get('host', '')}")
    origin = request.headers.get("origin")
    if origin is not None and origin.lower() != f"{ours.scheme}://{ours.netloc}".lower():
        raise PermissionDeniedException("This form was sent by a page of another site.")


def _signed_out(request: AnyRequest) -> Response[Any]:
    """To the page where one signs in, and from there back; whose session has ended goes to the provider at
    once, which may know them still. Where a part is asked for the page stays, with what is written on it.
    Raises NotAuthorizedException, CrossSiteArrival.
    """
    if request.headers.get("hx-request"):
        raise NotAuthorizedException("Your session has ended. What is written on this page stays.")
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    if request.headers.get("sec-fetch-site") == "cross-site":
        raise CrossSiteArrival(here)
    services = services_of(request)
    was_in = services.sessions.unsealed(_cookie(request), ConsoleSession) is not None
    way = f"{SIGN_IN}/begin" if was_in and services.provider is not None else SIGN_IN
    return Redirect(f"{way}?next={quote(here)}", status_code=303)


async def _refused(request: AnyRequest) -> FormRefused:
    items = (await request.form()).multi_items()
    fields = [(name, value) for name, value in items if isinstance(value, str) and name != TOKEN_FIELD]
    return FormRefused(fields, files=any(isinstance(value, UploadFile) for _, value in items))


async def _given_token(request: AnyRequest) -> str:
    header = request.headers.get(_TOKEN_HEADER)
    if header is not None:
        return header
    return str((await request.form()).get(TOKEN_FIELD, ""))


def _cookie(request: AnyRequest) -> str:
    return request.cookies.get(cookie_name(services_of(request)), "")


def cookie_name(services: ConsoleServices) -> str:
    """With the prefix, a browser takes it from this very host over TLS alone."""
    return "__Host-agentchat_console" if is_secure(services) else "agentchat_console"


def is_secure(services: ConsoleServices) -> bool:
    return (services.settings.console_url or "").startswith("https:")


def session_of(request: AnyRequest) -> ConsoleSession:
    session = request.state.session
    assert isinstance(session, ConsoleSession)
    return session
