"""Check session and role before each handler.

Each handler names the least role that it needs (`console_roles`); None means that anyone may use it. The Host
header was checked by `console_middleware`; Litestar checks the token of each form (CSRFConfig).
"""

import re
from typing import Any
from urllib.parse import quote

import msgspec
from litestar import Request, Response
from litestar.datastructures import Cookie
from litestar.exceptions import ClientException, NotAuthorizedException, PermissionDeniedException
from litestar.response import Redirect
from litestar.template.base import csrf_token

from agentchat.administration import Admin
from agentchat.administration.account_scope import check_named, check_path
from agentchat.console.services import ConsoleServices, get_services
from agentchat.console.shared.console_roles import FILTERED, KEY, Rights, Role
from agentchat.console.shared.sessions import LOCAL, ConsoleSession
from agentchat.contracts.admin_errors import Unavailable
from agentchat.runtime.client_address import find_peer

SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"
OPEN_PATHS = ("/static/", "/healthz", "/readyz")
_SAFE = ("GET", "HEAD")
_LOCAL_PATH = re.compile(
    r"(?:/(?!/)[A-Za-z0-9\-._~!$&'()*+,;=:@%]*)+(?:\?[A-Za-z0-9\-._~!$&'()*+,;=:@%/?]*)?"
)

AnyRequest = Request[Any, Any, Any]


async def check(request: AnyRequest) -> Response[Any] | None:
    """Attach the session to the request, or answer in the handler's place.

    Raises:
        HTTPException: If the session has ended or the role does not suffice.
        AdminError: If the person is limited to accounts that do not have what is asked for.
        DatabaseUnavailable: If Postgres does not answer.
    """
    if request.url.path.startswith(OPEN_PATHS):
        return None
    services = get_services(request)
    if "%00" in request.url.query:
        raise ClientException("The address contains a NUL character.")
    needed: Role | None = request.route_handler.opt.get(KEY, Role.OWNER)
    if needed is None:
        return None
    token = request.cookies.get(build_cookie_name(services), "")
    session = find_session(request) if services.sessions.are_open else await services.sessions.find(token)
    if session is None:
        return _redirect_to_sign_in(request, was_in=bool(token))
    request.state.session = session
    if session.role < needed:
        raise PermissionDeniedException(
            f"This needs the role {needed.word}; you are signed in as {session.role.word}."
        )
    if services.settings.rehearsal and request.method not in _SAFE and request.url.path != SIGN_OUT:
        raise Unavailable("this is a rehearsal, which only reads. Nothing was changed")
    if session.account_ids is not None:
        await _check_accounts(request)
    if request.method in _SAFE:
        request.state.waiting = await services.badges.count_approvals(session.account_ids)
    return None


async def _check_accounts(request: AnyRequest) -> None:
    """Check that a person who is limited to some accounts asks for nothing of others. Raises AdminError."""
    admin, is_filtered = get_admin(request), request.route_handler.opt.get(FILTERED, False)
    await check_path(admin, request.path_params, filtered=is_filtered)
    await check_named(admin, request.query_params)
    if request.method not in _SAFE:
        await check_named(admin, await request.form())


def find_session(request: AnyRequest) -> ConsoleSession | None:
    """Return the session of a request; None if the person is not signed in.

    If nobody has to sign in, each browser is a session, identified by its form token.
    """
    session: ConsoleSession | None = getattr(request.state, "session", None)
    if session is None and get_services(request).sessions.are_open:
        return ConsoleSession(get_form_token(request), LOCAL, Role.OWNER)
    return session


def get_session(request: AnyRequest) -> ConsoleSession:
    """Return the session of a request that `check` let through."""
    session = request.state.session
    assert isinstance(session, ConsoleSession)
    return session


def get_admin(request: AnyRequest) -> Admin:
    """Return the administration with the person of the request as actor of its audit rows."""
    session = get_session(request)
    admin = get_services(request).admin
    return msgspec.structs.replace(admin, actor=session.actor, account_ids=session.account_ids)


def get_rights(request: AnyRequest) -> Rights:
    """Return the rights of the person of a request."""
    session, state = find_session(request), request.app.state
    if session is None:
        return Rights(None, state.roles)
    return Rights(session.role, state.roles, () if session.account_ids is None else state.closed)


def get_form_token(request: AnyRequest) -> str:
    """Return the token that each form of this browser sends; another site cannot know it."""
    return csrf_token({"request": request})


def get_client_address(request: AnyRequest) -> str:
    """Return the address of the browser in front of the trusted proxies, as the gateway does."""
    return find_peer(request.scope, get_services(request).trusted_proxies)


def is_local_path(text: str) -> bool:
    """Return True if browsers take `text` for a path of the console, not another site's.

    Only the characters that RFC 3986 allows in a path and a query pass (3.3, 3.4). Browsers drop tabs and
    line breaks, and take a backslash for a slash, so that a slash and these may begin another site's address.
    """
    return _LOCAL_PATH.fullmatch(text) is not None


def _redirect_to_sign_in(request: AnyRequest, *, was_in: bool) -> Response[Any]:
    """Redirect to the sign-in page and from there back.

    If a session has ended, redirect straight to the provider.

    Raises:
        NotAuthorizedException: For a form or a part of a page, so that the page keeps what is written on it.
    """
    if request.headers.get("hx-request") or request.method not in _SAFE:
        raise NotAuthorizedException(
            "Your session has ended and nothing was changed. What you wrote is kept in this tab: sign in, "
            "then open the page again."
        )
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    way = f"{SIGN_IN}/begin" if was_in and get_services(request).provider is not None else SIGN_IN
    return Redirect(f"{way}?next={quote(here)}", status_code=303)


def build_cookie_name(services: ConsoleServices, name: str = "agentchat_console") -> str:
    """Return the name of a cookie.

    With the prefix, browsers accept the cookie only from this host and over TLS.
    """
    return f"__Host-{name}" if is_secure(services) else name


def is_secure(services: ConsoleServices) -> bool:
    """Return True if browsers reach the console by https."""
    return (services.settings.console_url or "").startswith("https:")


def build_session_cookie(services: ConsoleServices, token: str | None) -> Cookie:
    """Build the cookie of a session; None deletes it.

    Scripts and other sites' forms cannot use it.
    """
    return Cookie(
        build_cookie_name(services),
        value=token or "",
        max_age=0 if token is None else None,
        path="/",
        httponly=True,
        samesite="lax",
        secure=is_secure(services),
    )
