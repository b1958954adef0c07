"""Sign in with the administrator's token or a named token, and sign out."""

import hmac
import re

from litestar import Response, get, post
from litestar.exceptions import PermissionDeniedException
from litestar.response import Redirect, Template

from agentchat.console.services import get_services
from agentchat.console.shared.access_check import (
    SIGN_IN,
    SIGN_OUT,
    AnyRequest,
    build_session_cookie,
    get_client_address,
    get_session,
    is_local_path,
)
from agentchat.console.shared.console_roles import Role
from agentchat.console.shared.rendering import render_page
from agentchat.console.shared.sessions import Person
from agentchat.directory.named_tokens import find_holder
from agentchat.runtime import metrics

_NAME = re.compile(r"[A-Za-z0-9._@+-]{1,80}")


def keep_local_path(text: str) -> str:
    """Return `text` if it is a path of the console; "/" for other sites and invalid addresses."""
    return text if is_local_path(text) else "/"


@get(SIGN_IN, role=None)
async def get_sign_in(request: AnyRequest) -> Response[None] | Template:
    """Show the sign-in page."""
    if get_services(request).sessions.are_open:
        return Redirect("/")
    return render_sign_in(request, following=keep_local_path(request.query_params.get("next", "/")))


@post(SIGN_IN, status_code=200, role=None)
async def post_sign_in(request: AnyRequest) -> Response[None] | Template:
    """Sign in with the administrator's token, or with a named token, whose name is then the person's.

    Raises:
        DatabaseUnavailable: If Postgres does not answer.
        PermissionDeniedException: If people sign in at a provider.
    """
    services, form = get_services(request), await request.form()
    if services.provider is not None:
        raise PermissionDeniedException(f"Sign in at {services.provider.host}; a token is not accepted.")
    following = keep_local_path(str(form.get("next", "/")))
    name, token = str(form.get("name", "")).strip(), str(form.get("token", "")).strip()
    person = await _check_credentials(request, name, token)
    if isinstance(person, str):
        return render_sign_in(request, following, problem=person, name=name)
    cookie = build_session_cookie(services, await services.sessions.start(person))
    return Redirect(following, status_code=303, cookies=[cookie])


async def _check_credentials(request: AnyRequest, name: str, token: str) -> Person | str:
    """Return the person, or why name or token is refused. Count a wrong token."""
    services = get_services(request)
    address = get_client_address(request)
    if wait := services.sign_in_limit.get_wait(address):
        metrics.REFUSED_ADMIN_TOKENS.labels(reason="address").inc()
        return f"Too many wrong tokens from your address. Try again in {wait} s."
    if (holder := await find_holder(services.pool, token)) is not None:
        return Person(name=holder.name, role=holder.role, token_name=holder.name)
    wanted = services.settings.admin_token
    if wanted is None or not hmac.compare_digest(token.encode(), wanted.encode()):
        services.sign_in_limit.add_failure(address)
        metrics.REFUSED_ADMIN_TOKENS.labels(reason="wrong").inc()
        return "Wrong token. Use a named token that is not revoked, or the value of AGENTCHAT_ADMIN_TOKEN."
    if not _NAME.fullmatch(name):
        return "Your name may have only letters, digits and . _ @ + -, at most 80 characters."
    return Person(name=name, role=Role.OWNER)


@post(SIGN_OUT, role=Role.VIEWER, filtered=True)
async def post_sign_out(request: AnyRequest) -> Response[None]:
    """End the session on the server and delete its cookie. Raises DatabaseUnavailable."""
    services = get_services(request)
    await services.sessions.end(get_session(request))
    return Redirect(SIGN_IN, status_code=303, cookies=[build_session_cookie(services, None)])


def render_sign_in(
    request: AnyRequest,
    following: str,
    *,
    problem: str | None = None,
    name: str = "",
    status_code: int | None = None,
) -> Template:
    """Render the sign-in page. `following` is the path to open after the sign-in."""
    return render_page(
        request,
        "sign_in.html",
        title="Sign in",
        provider=get_services(request).provider,
        following=following,
        problem=problem,
        name=name,
        status_code=status_code or (403 if problem else 200),
    )


HANDLERS = (get_sign_in, post_sign_in, post_sign_out)
