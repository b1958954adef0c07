"""Signing in at a provider: the way there, and the way back."""

import hmac
from typing import TYPE_CHECKING

import msgspec
from litestar import Response, get
from litestar.datastructures import Cookie
from litestar.exceptions import NotFoundException
from litestar.response import Redirect, Template

from console.console_services import ConsoleServices, services_of
from console.frame.access import SIGN_IN, AnyRequest, is_secure
from console.frame.rendering import session_cookie
from console.frame.sessions import ConsoleSession
from console.frame.sign_in import arrived, own_path, sign_in_page
from runtime import logs

if TYPE_CHECKING:
    from console.frame.oidc_provider import OidcProvider, Person

_SECONDS = 600.0
"""For as long the provider may ask for passwords and the like."""


class PendingSignIn(msgspec.Struct, frozen=True, kw_only=True):
    """What a browser keeps in a cookie while it is at the provider, until `ends`, in Unix seconds."""

    state: str
    nonce: str
    code_verifier: str
    following: str
    ends: float


def _provider(request: AnyRequest) -> "OidcProvider":
    """Raises NotFoundException."""
    provider = services_of(request).provider
    if provider is None:
        raise NotFoundException("No provider is set, at which people sign in.")
    return provider


@get(f"{SIGN_IN}/begin", role=None)
async def get_begin(request: AnyRequest) -> Response[None] | Template:
    """To the provider. Raises DatabaseUnavailable."""
    from console.frame.oidc_provider import ProviderUnavailable

    provider, sessions = _provider(request), services_of(request).sessions
    following = own_path(request.query_params.get("next", "/"))
    try:
        begun = await provider.begin()
    except ProviderUnavailable as error:
        logs.get_logger("console").warning("provider_unavailable", reason=str(error))
        return sign_in_page(request, following, problem=str(error), status_code=503)
    pending = PendingSignIn(
        state=begun.state,
        nonce=begun.nonce,
        code_verifier=begun.code_verifier,
        following=following,
        ends=await sessions.now() + _SECONDS,
    )
    return Redirect(begun.url, status_code=303, cookies=[_cookie(request, sessions.sealed(pending))])


@get(f"{SIGN_IN}/callback", role=None)
async def get_callback(request: AnyRequest) -> Template:
    """Back from the provider: a session for who may come in. Raises DatabaseUnavailable."""
    from console.frame.oidc_provider import ProviderUnavailable, SignInRefused

    provider, services = _provider(request), services_of(request)
    pending, given = services.sessions.unsealed(_kept(request), PendingSignIn), request.query_params
    if pending is None or not hmac.compare_digest(pending.state.encode(), given.get("state", "").encode()):
        return sign_in_page(request, "/", problem="It was begun in another browser, or again in another tab.")
    address = request.client.host if request.client else ""
    problem = await _hurdle(request, pending, address)
    if problem is not None:
        return sign_in_page(request, pending.following, problem=problem)
    code, reason = given.get("code"), given.get("error_description") or given.get("error")
    try:
        person = await provider.finish(code, reason, pending.nonce, pending.code_verifier)
    except ProviderUnavailable as error:
        logs.get_logger("console").warning("provider_unavailable", reason=str(error))
        return sign_in_page(request, pending.following, problem=str(error), status_code=503)
    except SignInRefused as error:
        services.sign_in_limit.was_wrong(address)
        logs.get_logger("console").warning("sign_in_refused", reason=str(error))
        return sign_in_page(request, pending.following, problem=str(error))
    session = await _begun(services, person)
    logs.get_logger("console").info("signed_in", actor=session.actor, role=session.role.word)
    request.state.session = session
    answer = arrived(request, pending.following)
    answer.cookies = [*answer.cookies, session_cookie(request, session), _cookie(request, "")]
    return answer


async def _begun(services: ConsoleServices, person: "Person") -> ConsoleSession:
    """A session whose role is confirmed while it lasts; one without a refresh token lasts for as long as a
    role may without that. Raises DatabaseUnavailable.
    """
    sessions, checks = services.sessions, services.role_checks
    if checks is None or person.refresh_token is None:
        return await sessions.begin(person.name, person.role, services.settings.oidc_role_minutes * 60)
    session = await sessions.begin(person.name, person.role, is_confirmed=True)
    await checks.begin(session, person, sessions.seconds)
    return session


async def _hurdle(request: AnyRequest, pending: PendingSignIn, address: str) -> str | None:
    """Why the provider is not asked. Raises DatabaseUnavailable."""
    services = services_of(request)
    if await services.sessions.now() >= pending.ends:
        return "It took too long."
    if wait := services.sign_in_limit.wait(address):
        return f"Too many sign-ins failed from your address. Try again in {wait} s."
    return None


def _kept(request: AnyRequest) -> str:
    return request.cookies.get(_cookie_name(request), "")


def _cookie_name(request: AnyRequest) -> str:
    return f"{'__Host-' if is_secure(services_of(request)) else ''}agentchat_console_sign_in"


def _cookie(request: AnyRequest, value: str) -> Cookie:
    """Lax: the provider's site leads the browser back. An empty one ends it."""
    return Cookie(
        _cookie_name(request),
        value=value,
        max_age=int(_SECONDS) if value else 0,
        path="/",
        httponly=True,
        samesite="lax",
        secure=is_secure(services_of(request)),
    )


HANDLERS = (get_begin, get_callback)
