"""Signing in and out. A form whose session has ended is shown again after it, with all that was written."""

import hmac
import re
from urllib.parse import urlsplit

import msgspec
from litestar import Response, get, post
from litestar.exceptions import PermissionDeniedException
from litestar.response import Redirect, Template

from console.console_services import services_of
from console.frame.access import SIGN_IN, AnyRequest, CrossSiteArrival, FormRefused, session_of
from console.frame.rendering import ended_cookie, page, session_cookie
from console.frame.roles import Role
from runtime import logs, metrics

_NAME = re.compile(r"[A-Za-z0-9._@+-]{1,80}")


class PendingForm(msgspec.Struct, frozen=True):
    """A form that was not taken: where it goes, and its fields."""

    action: str
    fields: list[tuple[str, str]]


def own_path(text: str) -> str:
    """A path of ours; an address of another site, or none at all, becomes the start."""
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
    """With the administrator's token. Raises DatabaseUnavailable, PermissionDeniedException."""
    services, form = services_of(request), await request.form()
    if services.provider is not None:
        raise PermissionDeniedException(f"People sign in at {services.provider.host}, and not by a token.")
    following, pending = own_path(str(form.get("next", "/"))), _pending(str(form.get("pending", "")))
    name, token = str(form.get("name", "")).strip(), str(form.get("token", "")).strip()
    problem = _problem(request, name, token)
    if problem is not None:
        return sign_in_page(request, following, pending, problem=problem, name=name)
    session = await services.sessions.begin(name, Role.OWNER)
    logs.get_logger("console").info("signed_in", actor=session.actor, role=session.role.word)
    request.state.session, request.state.is_new_session = session, True
    if pending is not None:
        return page(request, "form_again.html", title="Send it now?", pending=pending, files=False)
    return Redirect(following, status_code=303, cookies=[session_cookie(request, session)])


def _problem(request: AnyRequest, name: str, token: str) -> str | None:
    """Why nobody is signed in with these. A wrong token is counted."""
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
    await services_of(request).sessions.end(session_of(request))
    checks = services_of(request).role_checks
    if checks is not None:
        await checks.end(session_of(request).id)
    return Redirect(SIGN_IN, status_code=303, cookies=[ended_cookie(request)])


def form_refused(request: AnyRequest, refused: FormRefused) -> Template:
    """The page with which a form comes back that has no session any more; nothing was changed."""
    pending = PendingForm(own_path(request.url.path), refused.fields)
    signed_in = getattr(request.state, "session", None) is not None
    if not signed_in and services_of(request).provider is None:
        answer = sign_in_page(request, following="/", pending=pending, status_code=401)
    else:
        answer = page(
            request,
            "form_again.html",
            title="Send it again?" if signed_in else "Your session has ended",
            pending=pending,
            files=refused.files,
            status_code=403 if signed_in else 401,
        )
    answer.headers.update({"hx-retarget": "#main", "hx-reselect": "#main", "hx-reswap": "outerHTML"})
    return answer


def sign_in_page(
    request: AnyRequest,
    following: str,
    pending: PendingForm | None = None,
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
        pending=None if pending is None else msgspec.json.encode(pending).decode(),
        problem=problem,
        name=name,
        status_code=status_code or (403 if problem else 200),
    )


def arrived(request: AnyRequest, path: str) -> Template:
    """A page that goes on to `path` by itself. What another site leads to has no cookie that is strict; what
    a page of ours leads to has it.
    """
    return page(request, "arrived.html", title="Signing in", following=own_path(path))


def cross_site_arrival(request: AnyRequest, arrival: CrossSiteArrival) -> Template:
    return arrived(request, arrival.path)


def _pending(text: str) -> PendingForm | None:
    """None where there is none, or one that we did not write."""
    try:
        found = msgspec.json.decode(text, type=PendingForm)
    except msgspec.DecodeError:
        return None
    return msgspec.structs.replace(found, action=own_path(found.action))


HANDLERS = (get_sign_in, post_sign_in, post_sign_out)
