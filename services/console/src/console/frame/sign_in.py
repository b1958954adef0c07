"""Signing in and out. A form whose session has ended is shown again after it, with all that was written."""

import re
from urllib.parse import urlsplit

import msgspec
from litestar import Response, get, post
from litestar.response import Redirect, Template

from console.console_services import services_of
from console.frame.access import SIGN_IN, AnyRequest, FormRefused
from console.frame.rendering import ended_cookie, page, session_cookie
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


@get(SIGN_IN)
async def get_sign_in(request: AnyRequest) -> Response[None] | Template:
    if services_of(request).sessions.are_open:
        return Redirect("/")
    return sign_in_page(request, following=own_path(request.query_params.get("next", "/")))


@post(SIGN_IN, status_code=200)
async def post_sign_in(request: AnyRequest) -> Response[None] | Template:
    """Raises DatabaseUnavailable."""
    services, form = services_of(request), await request.form()
    following, pending = own_path(str(form.get("next", "/"))), _pending(str(form.get("pending", "")))
    address = request.client.host if request.client else ""
    name = str(form.get("name", "")).strip()
    problem = None
    if wait := services.sign_in_limit.wait(address):
        metrics.REFUSED_ADMIN_TOKENS.add(reason="address")
        problem = f"Too many wrong tokens came from your address. Try again in {wait} s."
    elif not _NAME.fullmatch(name):
        problem = "A name has letters, digits and . _ @ + - only, at most 80 of them."
    session = None if problem else await services.sessions.signed_in(name, str(form.get("token", "")).strip())
    if session is None:
        if problem is None:
            services.sign_in_limit.was_wrong(address)
            metrics.REFUSED_ADMIN_TOKENS.add(reason="wrong")
            problem = "That is not the administrator's token."
        return sign_in_page(request, following, pending, problem=problem, name=name)
    logs.get_logger("console").info("signed_in", actor=session.actor)
    request.state.session, request.state.is_new_session = session, True
    if pending is not None:
        return page(request, "form_again.html", title="Send it now?", pending=pending, files=False)
    return Redirect(following, status_code=303, cookies=[session_cookie(request, session)])


@post("/sign-out")
async def post_sign_out(request: AnyRequest) -> Response[None]:
    return Redirect(SIGN_IN, status_code=303, cookies=[ended_cookie(request)])


def form_refused(request: AnyRequest, refused: FormRefused) -> Template:
    """The page with which a form comes back that has no session any more; nothing was changed."""
    pending = PendingForm(own_path(request.url.path), refused.fields)
    if getattr(request.state, "session", None) is None:
        answer = sign_in_page(request, following="/", pending=pending, status_code=401)
    else:
        answer = page(
            request,
            "form_again.html",
            title="Send it again?",
            pending=pending,
            files=refused.files,
            status_code=403,
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
        following=following,
        pending=None if pending is None else msgspec.json.encode(pending).decode(),
        problem=problem,
        name=name,
        status_code=status_code or (403 if problem else 200),
    )


def _pending(text: str) -> PendingForm | None:
    """None where there is none, or one that we did not write."""
    try:
        found = msgspec.json.decode(text, type=PendingForm)
    except msgspec.DecodeError:
        return None
    return msgspec.structs.replace(found, action=own_path(found.action))


HANDLERS = (get_sign_in, post_sign_in, post_sign_out)
