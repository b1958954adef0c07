"""The provider of OpenID Connect at which people sign in: authorization code with PKCE, state and nonce.

authlib does the protocol; it is loaded with this module, where a provider is set.
"""

import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec
from authlib.integrations.base_client import BaseApp, OAuthError
from authlib.integrations.base_client.async_app import AsyncOAuth2Mixin
from authlib.integrations.base_client.async_openid import AsyncOpenIDMixin
from authlib.integrations.httpx_client import AsyncOAuth2Client
from joserfc.errors import JoseError

from console.frame.roles import Role
from console.sign_in_settings import SignInSettings, is_safe

CALLBACK = "/sign-in/callback"
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures that only the provider can make: not those by the client's secret, and not none."""

_TIMEOUT_SECONDS = 10.0
_KEPT_SECONDS = 3600.0
_LEEWAY_SECONDS = 60
_MOST_NAME = 80
_NAMES = ("preferred_username", "email", "name")


class ProviderUnavailable(Exception):  # noqa: N818 - as DatabaseUnavailable is called
    """The provider does not answer as a provider does; the text says how."""


class SignInRefused(Exception):  # noqa: N818 - not an error of ours
    """This person does not come in; the text says why."""


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is for the audit log: the subject, which is theirs for ever, and how they are called now. With
    the `refresh_token` the provider is asked about them again; None where it gives none.
    """

    name: str
    role: Role
    subject: str
    refresh_token: str | None = None

    def __repr__(self) -> str:
        """Without the token."""
        return f"Person(name={self.name!r}, role={self.role!r})"


class BegunSignIn(msgspec.Struct, frozen=True, kw_only=True):
    """`url` is where the browser goes; the rest is needed when it comes back."""

    url: str
    state: str
    nonce: str
    code_verifier: str


class _ProviderApp(AsyncOAuth2Mixin, AsyncOpenIDMixin, BaseApp):  # type: ignore[misc]  # authlib has no types
    client_cls = AsyncOAuth2Client


class OidcProvider:
    """Its document is read at the first sign-in, and again after an hour; its keys also where one is new."""

    def __init__(self, settings: SignInSettings) -> None:
        self._settings = settings
        self._roles = settings.roles_by_value()
        self._issuer = settings.oidc_issuer or ""
        self._callback = f"{(settings.console_url or '').rstrip('/')}{CALLBACK}"
        self._app: Any = None
        self._read_at = 0.0

    @property
    def host(self) -> str:
        """What people know it by."""
        return urlsplit(self._issuer).netloc

    async def begin(self) -> BegunSignIn:
        """Raises ProviderUnavailable."""
        app = await self._opened()
        with self._words():
            return msgspec.convert(await app.create_authorization_url(self._callback), BegunSignIn)

    async def finish(self, code: str | None, reason: str | None, nonce: str, code_verifier: str) -> Person:
        """Who has come back with a code, or with a reason why not.

        Raises ProviderUnavailable, SignInRefused.
        """
        if not code:
            raise SignInRefused(f"{self.host} refused: {(reason or 'it does not say why')[:200]}.")
        app = await self._opened()
        with self._words():
            token = await app.fetch_access_token(self._callback, code=code, code_verifier=code_verifier)
        return await self._person(app, token, nonce)

    async def refresh(self, refresh_token: str, subject: str) -> Person:
        """Who the person of a sign-in is now. Raises ProviderUnavailable, SignInRefused."""
        app = await self._opened()
        with self._words():
            async with AsyncOAuth2Client(
                self._settings.oidc_client_id, self._settings.oidc_client_secret, **app.client_kwargs
            ) as client:
                token = await client.refresh_token(
                    app.server_metadata["token_endpoint"], refresh_token=refresh_token
                )
        person = await self._person(app, token, None)
        if person.subject != subject:
            raise SignInRefused(f"{self.host} gave an ID token of somebody else.")
        return person

    async def _person(self, app: Any, token: Mapping[str, Any], nonce: str | None) -> Person:
        """Raises ProviderUnavailable, SignInRefused."""
        expected = {"iss": {"essential": True, "value": self._issuer}}
        expected["aud"] = {"essential": True, "value": self._settings.oidc_client_id or ""}
        with self._words():
            claims = await app.parse_id_token(
                token, nonce=nonce, claims_options=expected, leeway=_LEEWAY_SECONDS
            )
        if claims is None:
            raise SignInRefused(f"{self.host} gave no ID token.")
        name = person_name(claims)
        roles = [self._roles[each] for each in self._values(claims) if each in self._roles]
        if not roles:
            raise SignInRefused(
                f"{self.host} knows you as {name}, and nothing in your {self._settings.oidc_role_claim} "
                "gives you a role here. Whoever runs this console can (AGENTCHAT_CONSOLE_OIDC_ROLES)."
            )
        return Person(
            name=name, role=max(roles), subject=str(claims["sub"]), refresh_token=token.get("refresh_token")
        )

    def _values(self, claims: Mapping[str, Any]) -> list[str]:
        """Of the claim that gives roles. An address that nobody has verified is none."""
        claim = self._settings.oidc_role_claim
        if claim == "email" and claims.get("email_verified") is not True:
            return []
        return claim_values(claims, claim)

    async def _opened(self) -> Any:
        """Raises ProviderUnavailable."""
        if self._app is None or time.monotonic() - self._read_at >= _KEPT_SECONDS:
            settings, document = self._settings, await self._document()
            offered = document.get("token_endpoint_auth_methods_supported", ("client_secret_basic",))
            basic = "client_secret_basic" in offered
            signed = document.get("id_token_signing_alg_values_supported", ("RS256",))
            self._app = _ProviderApp(
                None,
                client_id=settings.oidc_client_id,
                client_secret=settings.oidc_client_secret,
                client_kwargs={
                    "scope": " ".join(settings.oidc_scopes),
                    "code_challenge_method": "S256",
                    "token_endpoint_auth_method": "client_secret_basic" if basic else "client_secret_post",
                    "timeout": _TIMEOUT_SECONDS,
                },
                issuer=self._issuer,
                id_token_signing_alg_values_supported=[each for each in _ALGORITHMS if each in signed],
                **{name: document[name] for name in _ENDPOINTS},
            )
            self._read_at = time.monotonic()
        return self._app

    async def _document(self) -> dict[str, Any]:
        """Raises ProviderUnavailable."""
        with self._words():
            async with httpx2.AsyncClient(timeout=_TIMEOUT_SECONDS) as client:
                answer = await client.get(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
                answer.raise_for_status()
                document = msgspec.json.decode(answer.content, type=dict[str, Any])
        if document.get("issuer") != self._issuer:
            raise ProviderUnavailable(
                f"{self.host} calls itself {str(document.get('issuer'))[:200]!r}, and "
                f"AGENTCHAT_CONSOLE_OIDC_ISSUER is {self._issuer!r}."
            )
        for name in _ENDPOINTS:
            if not isinstance(document.get(name), str) or not is_safe(document[name].partition("?")[0]):
                raise ProviderUnavailable(f"{self.host} has no {name} by https.")
        return document

    @contextlib.contextmanager
    def _words(self) -> Iterator[None]:
        """Raises ProviderUnavailable, SignInRefused for what goes wrong with the provider in the block."""
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
            raise SignInRefused(f"What {self.host} sent is not for us, or not of now: {error}.") from None
        except ValueError as error:
            raise ProviderUnavailable(f"{self.host} gave an answer that cannot be read: {error}.") from None


def person_name(claims: Mapping[str, Any]) -> str:
    """The subject, then in brackets what the provider calls them, without what could look like another's."""
    subject = str(claims["sub"])[:255]
    called = next((str(claims[each]) for each in _NAMES if isinstance(claims.get(each), str)), "")
    called = re.sub(r"[^\w.@+\- ]", "", called).strip()[:_MOST_NAME]
    return f"{subject} ({called})" if called and called != subject else subject


def claim_values(claims: Mapping[str, Any], name: str) -> list[str]:
    """The texts of a claim: a value or a list of them. With dots, where no claim has the name as it is, it is
    a path, such as `realm_access.roles`.
    """
    found: Any = claims.get(name)
    if found is None:
        found = claims
        for step in name.split("."):
            found = found.get(step) if isinstance(found, Mapping) else None
    listed = found if isinstance(found, list) else [found]
    return [each for each in listed if isinstance(each, str)]
