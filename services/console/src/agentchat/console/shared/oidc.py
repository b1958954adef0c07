"""Sign in at an OpenID Connect provider: authorization code with PKCE, state and nonce.

authlib implements the protocol. This module is only imported if a provider is set, since authlib is large.
"""

import contextlib
import hmac
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec
from authlib.common.security import generate_token
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry
from litestar import Response, get
from litestar.middleware.session.client_side import CookieBackendConfig
from litestar.response import Redirect, Template

from agentchat.console.services import ConsoleServices, get_services
from agentchat.console.shared.access_check import (
    SIGN_IN,
    AnyRequest,
    build_session_cookie,
    get_client_address,
    is_secure,
)
from agentchat.console.shared.console_roles import Role
from agentchat.console.shared.sessions import Person, ProviderUnavailable, SignInRefused
from agentchat.console.shared.sign_in import keep_local_path, render_sign_in
from agentchat.console.sign_in_settings import SignInSettings, is_safe
from agentchat.runtime import logs

CALLBACK = f"{SIGN_IN}/callback"
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures that only the provider can make: neither HMAC with the client secret nor none."""

_TIMEOUT_SECONDS = 10.0
_KEPT_SECONDS = 3600.0
_LEEWAY_SECONDS = 60
_SIGN_IN_SECONDS = 600
"""How long a person may take at the provider."""
_MOST_NAME = 80
_NAMES = ("preferred_username", "email", "name")


class PendingSignIn(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in under way. The browser goes to `url`; the rest is checked when it returns."""

    url: str
    state: str
    nonce: str
    code_verifier: str


class OidcProvider:
    """A client of the provider.

    The provider's configuration is read at the first sign-in and once an hour, its keys also if a token names
    an unknown key.
    """

    def __init__(self, settings: SignInSettings) -> None:
        self._settings = settings
        self._roles = settings.map_roles()
        self._issuer = settings.oidc_issuer or ""
        self._document: dict[str, Any] = {}
        self._keys: KeySet | None = None
        self._read_at = float("-inf")

    @property
    def host(self) -> str:
        """The provider's host name, as people know it."""
        return urlsplit(self._issuer).netloc

    async def start(self) -> PendingSignIn:
        """Start a sign-in. Raises ProviderUnavailable."""
        nonce, verifier = generate_token(32), generate_token(64)
        with self._translate_errors():
            async with await self._open_client() as client:
                url, state = client.create_authorization_url(
                    self._document["authorization_endpoint"], nonce=nonce, code_verifier=verifier
                )
        return PendingSignIn(url=url, state=state, nonce=nonce, code_verifier=verifier)

    async def finish(self, code: str | None, reason: str | None, nonce: str, code_verifier: str) -> Person:
        """Return the person who came back with a code. `reason` is the provider's error.

        Raises:
            ProviderUnavailable: If the provider does not answer.
            SignInRefused: If the provider refused, or the person has no role here.
        """
        if not code:
            raise SignInRefused(f"{self.host} refused: {(reason or 'it gave no reason')[:200]}.")
        with self._translate_errors():
            async with await self._open_client() as client:
                token = await client.fetch_token(
                    self._document["token_endpoint"], code=code, code_verifier=code_verifier
                )
            return await self._read_person(token, nonce)

    async def refresh(self, refresh_token: str, subject: str) -> Person:
        """Ask for the person again, with the present role.

        Raises ProviderUnavailable, SignInRefused.
        """
        with self._translate_errors():
            async with await self._open_client() as client:
                token = await client.refresh_token(
                    self._document["token_endpoint"], refresh_token=refresh_token
                )
            person = await self._read_person(token, None)
        if person.subject != subject:
            raise SignInRefused(f"{self.host} sent an ID token of another person.")
        return person

    async def _read_person(self, token: Mapping[str, Any], nonce: str | None) -> Person:
        if "id_token" not in token:
            raise SignInRefused(f"{self.host} sent no ID token.")
        client_id = self._settings.oidc_client_id or ""
        try:
            decoded = self._decode(token["id_token"], await self._load_keys())
        except InvalidKeyIdError:
            decoded = self._decode(token["id_token"], await self._load_keys(fresh=True))
        options = {
            "iss": {"essential": True, "value": self._issuer},
            "aud": {"essential": True, "value": client_id},
        }
        params = {"nonce": nonce, "client_id": client_id, "access_token": token.get("access_token")}
        claims = CodeIDToken(decoded.claims, decoded.header, options, params)
        claims.validate(leeway=_LEEWAY_SECONDS)
        name = build_person_name(claims)
        roles = [self._roles[each] for each in self._list_role_values(claims) if each in self._roles]
        if not roles:
            raise SignInRefused(
                f"{self.host} knows you as {name}, but no value of your {self._settings.oidc_role_claim} has "
                "a role here. Ask the operator of this console to add one (AGENTCHAT_CONSOLE_OIDC_ROLES)."
            )
        role: Role = max(roles)
        return Person(
            name=name, role=role, subject=str(claims["sub"]), refresh_token=token.get("refresh_token")
        )

    def _decode(self, id_token: str, keys: KeySet) -> jwt.Token:
        return jwt.decode(
            id_token, keys, registry=JWSRegistry(algorithms=[*_ALGORITHMS], strict_check_header=False)
        )

    def _list_role_values(self, claims: Mapping[str, Any]) -> list[str]:
        """Return the values of the role claim; an unverified e-mail address does not count."""
        claim = self._settings.oidc_role_claim
        if claim == "email" and claims.get("email_verified") is not True:
            return []
        return read_claim(claims, claim)

    async def _open_client(self) -> AsyncOAuth2Client:
        """Raises ProviderUnavailable."""
        settings = self._settings
        if time.monotonic() - self._read_at >= _KEPT_SECONDS:
            self._document, self._keys = await self._read_document(), None
            self._read_at = time.monotonic()
        offered = self._document.get("token_endpoint_auth_methods_supported", ("client_secret_basic",))
        is_basic = "client_secret_basic" in offered
        return AsyncOAuth2Client(
            settings.oidc_client_id,
            settings.oidc_client_secret,
            token_endpoint_auth_method="client_secret_basic" if is_basic else "client_secret_post",
            scope=" ".join(settings.oidc_scopes),
            redirect_uri=f"{(settings.console_url or '').rstrip('/')}{CALLBACK}",
            code_challenge_method="S256",
            timeout=_TIMEOUT_SECONDS,
        )

    async def _read_document(self) -> dict[str, Any]:
        document = await _get(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        if document.get("issuer") != self._issuer:
            raise ProviderUnavailable(
                f"{self.host} names the issuer {str(document.get('issuer'))[:200]!r}, but "
                f"AGENTCHAT_CONSOLE_OIDC_ISSUER is {self._issuer!r}."
            )
        for name in _ENDPOINTS:
            if not isinstance(document.get(name), str) or not is_safe(document[name].partition("?")[0]):
                raise ProviderUnavailable(f"{self.host} has no {name} with https.")
        return document

    async def _load_keys(self, *, fresh: bool = False) -> KeySet:
        if self._keys is None or fresh:
            self._keys = KeySet.import_key_set(await _get(self._document["jwks_uri"]))  # type: ignore[arg-type]  # its JSON
        return self._keys

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate errors of the block. Raises ProviderUnavailable, SignInRefused."""
        try:
            yield
        except httpx2.HTTPError as error:
            raise ProviderUnavailable(
                f"{self.host} does not answer: {error or type(error).__name__}."
            ) from None
        except OAuthError as error:
            refusal = str(error.description or error.error)
            raise SignInRefused(f"{self.host} refused: {refusal[:200]}.") from None
        except JoseError as error:
            raise SignInRefused(f"The ID token of {self.host} is not valid: {error}.") from None
        except ValueError as error:
            raise ProviderUnavailable(f"{self.host} sent an unreadable answer: {error}.") from None


async def _get(url: str) -> dict[str, Any]:
    async with httpx2.AsyncClient(timeout=_TIMEOUT_SECONDS) as client:
        answer = await client.get(url)
        answer.raise_for_status()
        return msgspec.json.decode(answer.content, type=dict[str, Any])


def build_person_name(claims: Mapping[str, Any]) -> str:
    """Return the unique subject, with the person's name in brackets."""
    subject = str(claims["sub"])[:255]
    called = next((str(claims[each]) for each in _NAMES if isinstance(claims.get(each), str)), "")
    called = re.sub(r"[^\w.@+\- ]", "", called).strip()[:_MOST_NAME]
    return f"{subject} ({called})" if called and called != subject else subject


def read_claim(claims: Mapping[str, Any], name: str) -> list[str]:
    """Return the texts of a claim, which is a value or a list.

    If no claim has this name, dots separate the steps of a path, such as `realm_access.roles`.
    """
    found: Any = claims.get(name)
    if found is None:
        found = claims
        for step in name.split("."):
            found = found.get(step) if isinstance(found, Mapping) else None
    listed = found if isinstance(found, list) else [found]
    return [each for each in listed if isinstance(each, str)]


def build_sign_in_cookie(services: ConsoleServices) -> CookieBackendConfig:
    """Configure the cookie of a pending sign-in, which is `request.session`."""
    return CookieBackendConfig(
        secret=services.sessions.secret,
        key="agentchat_console_sign_in",
        max_age=_SIGN_IN_SECONDS,
        secure=is_secure(services),
        samesite="lax",  # the provider's site leads the browser back
        exclude=f"^(?!{SIGN_IN}/)",
    )


def _get_provider(request: AnyRequest) -> OidcProvider:
    provider = get_services(request).provider
    assert provider is not None
    return provider


@get(f"{SIGN_IN}/begin", role=None)
async def get_begin(request: AnyRequest) -> Response[None] | Template:
    """Redirect to the provider."""
    following = keep_local_path(request.query_params.get("next", "/"))
    try:
        pending = await _get_provider(request).start()
    except ProviderUnavailable as error:
        return _render_unavailable(request, following, error)
    request.set_session(msgspec.to_builtins(pending) | {"following": following})
    return Redirect(pending.url, status_code=303)


@get(CALLBACK, role=None)
async def get_callback(request: AnyRequest) -> Response[None] | Template:
    """Start a session for the person who comes back from the provider.

    Raises DatabaseUnavailable.
    """
    services, given, pending = get_services(request), request.query_params, dict(request.session)
    if not pending or not hmac.compare_digest(pending["state"].encode(), given.get("state", "").encode()):
        problem = (
            "This sign-in was started in another browser or tab, or took too long. Please sign in again."
        )
        return render_sign_in(request, "/", problem=problem)
    following: str = pending["following"]
    address = get_client_address(request)
    if wait := services.sign_in_limit.get_wait(address):
        problem = f"Too many failed sign-ins from your address. Try again in {wait} s."
        return render_sign_in(request, following, problem=problem)
    reason = given.get("error_description") or given.get("error")
    try:
        person = await _get_provider(request).finish(
            given.get("code"), reason, pending["nonce"], pending["code_verifier"]
        )
    except ProviderUnavailable as error:
        return _render_unavailable(request, following, error)
    except SignInRefused as error:
        services.sign_in_limit.add_failure(address)
        logs.get_logger("console").warning("sign_in_refused", reason=str(error))
        return render_sign_in(request, following, problem=str(error))
    request.clear_session()
    cookie = build_session_cookie(services, await services.sessions.start(person))
    return Redirect(following, status_code=303, cookies=[cookie])


def _render_unavailable(request: AnyRequest, following: str, error: ProviderUnavailable) -> Template:
    logs.get_logger("console").warning("provider_unavailable", reason=str(error))
    return render_sign_in(request, following, problem=str(error), status_code=503)


HANDLERS = (get_begin, get_callback)
