"""Signing in with the administrator's token, and signing out."""

import hmac
import re
from urllib.parse import urlsplit

from litestar import Response, get, post
from litestar.exceptions import PermissionDeniedException
from litestar.response import Redirect, Template

from agentchat.console.console_services import services_of
from agentchat.console.frame.access import SIGN_IN, AnyRequest, session_cookie, session_of
from agentchat.console.frame.rendering import page
from agentchat.console.frame.roles import Role
from agentchat.console.frame.sessions import Person
from agentchat.runtime import metrics

_NAME = re.compile(r"[A-Za-z0-9._@+-]{1,80}")


def own_path(text: str) -> str:
    """Return a path of ours; the start for an address of another site, or none at all."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return "/"
    is_ours = not parts.scheme and not parts.netloc and text.startswith("/") and text[1:2] not in ("/", "\\")
    return text if is_ours else "/"


@get(SIGN_IN, role=None)
async def get_sign_in(request: AnyRequest) -> Response[None] | Template:
    if services_of(request).sessions.are_open:
        return Redirect("/")
    return sign_in_page(request, following=own_path(request.query_params.get("next", "/")))


@post(SIGN_IN, status_code=200, role=None)
async def post_sign_in(request: AnyRequest) -> Response[None] | Template:
    """Sign in with the administrator's token. Raises DatabaseUnavailable, PermissionDeniedException."""
    services, form = services_of(request), await request.form()
    if services.provider is not None:
        raise PermissionDeniedException(f"People sign in at {services.provider.host}, and not by a token.")
    following = own_path(str(form.get("next", "/")))
    name, token = str(form.get("name", "")).strip(), str(form.get("token", "")).strip()
    problem = _problem(request, name, token)
    if problem is not None:
        return sign_in_page(request, following, problem=problem, name=name)
    cookie = session_cookie(services, await services.sessions.begin(Person(name=name, role=Role.OWNER)))
    return Redirect(following, status_code=303, cookies=[cookie])


def _problem(request: AnyRequest, name: str, token: str) -> str | None:
    """Return why nobody is signed in with these. A wrong token is counted."""
    services = services_of(request)
    address = request.client.host if request.client else ""
    if wait := services.sign_in_limit.wait(address):
        metrics.REFUSED_ADMIN_TOKENS.labels(reason="address").inc()
        return f"Too many wrong tokens came from your address. Try again in {wait} s."
    if not _NAME.fullmatch(name):
        return "A name has letters, digits and . _ @ + - only, at most 80 of them."
    wanted = services.settings.admin_token
    if wanted is not None and hmac.compare_digest(token.encode(), wanted.encode()):
        return None
    services.sign_in_limit.was_wrong(address)
    metrics.REFUSED_ADMIN_TOKENS.labels(reason="wrong").inc()
    return "That is not the administrator's token."


@post("/sign-out", role=Role.VIEWER)
async def post_sign_out(request: AnyRequest) -> Response[None]:
    """Raises DatabaseUnavailable."""
    services = services_of(request)
    await services.sessions.end(session_of(request))
    return Redirect(SIGN_IN, status_code=303, cookies=[session_cookie(services, None)])


def sign_in_page(
    request: AnyRequest,
    following: str,
    *,
    problem: str | None = None,
    name: str = "",
    status_code: int | None = None,
) -> Template:
    return page(
        request,
        "sign_in.html",
        title="Sign in",
        provider=services_of(request).provider,
        following=following,
        problem=problem,
        name=name,
        status_code=status_code or (403 if problem else 200),
    )


HANDLERS = (get_sign_in, post_sign_in, post_sign_out)
