"""Signing in at a provider of OpenID Connect: who comes in with which role, and who is refused why."""

import itertools
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from joserfc.jwk import OctKey, RSAKey

from agentchat.console.shared.console_roles import Role
from agentchat.console.shared.oidc import OidcProvider, build_person_name, read_claim
from agentchat.console.shared.sessions import ProviderUnavailable, SignInRefused
from agentchat.console.sign_in_settings import SignInSettings
from tests.console.embedded import URL, run_console
from tests.console.openid_provider import CLIENT, EVERYBODY, SECRET, OpenIdProvider, name_provider
from tests.console.pages import Browser, extract_text
from tests.support.embedded_service import EmbeddedService

_addresses = itertools.count(2)
_ROLES = "staff=viewer,support=approver,ops=operator,admins=owner"


@pytest.fixture(autouse=True)
def as_it_was(provider: OpenIdProvider) -> Iterator[None]:
    before = dict(vars(provider))
    yield
    vars(provider).update(before, claims=dict(EVERYBODY), changed={}, document={}, token_requests=[])


@pytest.fixture(scope="module")
async def console(environ: dict[str, str], provider: OpenIdProvider) -> AsyncIterator[EmbeddedService]:
    own = name_provider(provider, _ROLES) | {"AGENTCHAT_ADMIN_TOKEN": "is not taken here"}
    async with run_console(environ | own) as process:
        yield process


class Person(Browser):
    """Somebody's browser at an address of its own. It follows no redirect by itself."""

    def __init__(self, console: EmbeddedService) -> None:
        transport = httpx.AsyncHTTPTransport(local_address=f"127.0.0.{next(_addresses)}")
        headers = {"host": "console.example"}
        super().__init__(console.url, headers, transport=transport, follow_redirects=False)

    async def sign_in(self, following: str = "/health") -> httpx.Response:
        """By way of the provider; what the console says when it is back."""
        return await self.get(await self.go_to_provider(following))

    async def go_to_provider(self, following: str = "/health") -> str:
        """The path with which the provider sends the browser back."""
        begun = await self.get(f"/sign-in/begin?next={following}")
        assert begun.status_code == 303, extract_text(begun.text)
        async with httpx.AsyncClient() as elsewhere:
            agreed = await elsewhere.get(begun.headers["location"])
        back = urlsplit(agreed.headers["location"])
        assert f"{back.scheme}://{back.netloc}" == URL
        return f"{back.path}?{back.query}"


@pytest.fixture
async def person(console: EmbeddedService) -> AsyncIterator[Person]:
    found = Person(console)
    yield found
    await found.http.aclose()


def test_authlib_is_only_loaded_with_a_provider() -> None:
    code = "import sys, agentchat.console.service; print({'authlib', 'joserfc'} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout == "set()\n"


async def test_sign_in_at_the_provider_leads_to_the_wanted_page(person: Person) -> None:
    away = await person.get("/health?a=1")
    page = await person.get(away.headers["location"])
    assert 'href="/sign-in/begin?next=/health%3Fa%3D1"' in page.text
    assert 'name="token"' not in page.text
    back = await person.sign_in("/health%3Fa%3D1")
    assert (back.status_code, back.headers["location"]) == (303, "/health?a=1")
    session, ended = back.headers.get_list("set-cookie")[:2]
    assert session.startswith("__Host-agentchat_console=")
    assert {"httponly", "secure", "samesite=lax", "path=/"} <= set(session.lower().split("; "))
    assert "sign_in=null" in ended, "the state of the sign-in is used once"
    assert "console:user-1 (ada) viewer" in extract_text((await person.get("/health")).text)


async def test_state_cookie_is_sent_after_the_providers_redirect(person: Person) -> None:
    begun = await person.get("/sign-in/begin")
    (kept,) = [each for each in begun.headers.get_list("set-cookie") if "sign_in=" in each]
    assert {"httponly", "secure", "samesite=lax", "path=/", "max-age=600"} <= set(kept.lower().split("; "))
    asked = dict(parse_qsl(urlsplit(begun.headers["location"]).query))
    assert {"code_challenge", "state", "nonce"} <= asked.keys()


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        ("support", "approver"),
        (["staff", "ops", "strangers"], "operator"),
    ],
)
async def test_the_highest_role_of_the_claim_counts(
    person: Person, provider: OpenIdProvider, groups: Any, role: str
) -> None:
    provider.claims["groups"] = groups
    await person.sign_in()
    assert f"console:user-1 (ada) {role}" in extract_text((await person.get("/health")).text)


_OTHER_KEY = RSAKey.generate_key(2048, {"kid": "first"})
_NOT_FOR_US = "is not valid"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"nonce": "another"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"iss": "https://evil.example"}, "iss"),
        ({"aud": "another"}, "aud"),
        ({"aud": ["another", "third"], "azp": CLIENT}, "aud"),
        ({"aud": [CLIENT, "another"], "azp": "another"}, "azp"),
        ({"exp": int(time.time()) - 3600}, "expired"),
        ({"iat": int(time.time()) + 3600}, "issued in the future"),
        ({"sub": None}, "sub"),
    ],
)
async def test_token_for_another_client_is_refused(
    person: Person, provider: OpenIdProvider, changed: dict[str, Any], reason: str
) -> None:
    provider.changed = changed
    await expect_refusal(person, _NOT_FOR_US, reason)


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [(_OTHER_KEY, "RS256"), (OctKey.import_key(SECRET, {"kid": "first"}), "HS256"), (None, "none")],
)
async def test_a_signature_that_is_not_the_providers_is_refused(
    person: Person, provider: OpenIdProvider, key: Any, algorithm: str
) -> None:
    provider.signing, provider.algorithm = key or provider.signing, algorithm
    await expect_refusal(person, _NOT_FOR_US)


async def expect_refusal(person: Person, *words: str) -> None:
    answer = await person.sign_in()
    assert answer.status_code == 403
    shown = extract_text(answer.text)
    assert "Not signed in." in shown
    for each in words:
        assert each in shown
    assert "__Host-agentchat_console" not in person.cookies


@pytest.mark.parametrize("claims", [{"groups": ["strangers"]}, {"groups": None}, {"groups": {"admins": 1}}])
async def test_person_without_a_role_is_refused(
    person: Person, provider: OpenIdProvider, claims: dict[str, Any]
) -> None:
    provider.changed = claims
    await expect_refusal(person, "knows you as user-1 (ada), but no value of your groups has a role here")


async def test_new_signing_key_is_loaded(person: Person, provider: OpenIdProvider) -> None:
    await person.sign_in()
    provider.signing = provider.published = RSAKey.generate_key(2048, {"kid": "second"})
    assert (await person.sign_in()).status_code == 303


async def test_refusal_of_the_provider_is_shown(person: Person, provider: OpenIdProvider) -> None:
    provider.refusal = "access_denied"
    await expect_refusal(person, "refused: access_denied")


async def test_failing_provider_is_reported(person: Person, provider: OpenIdProvider) -> None:
    provider.is_away = True
    answer = await person.sign_in()
    assert (answer.status_code, "does not answer" in answer.text) == (503, True)
    provider.is_away = False
    assert (await person.sign_in()).status_code == 303


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (
            {"issuer": "https://evil.example"},
            "names the issuer 'https://evil.example'",
        ),
        ({"token_endpoint": "http://login.example/token"}, "has no token_endpoint with https"),
        ({"jwks_uri": None}, "has no jwks_uri with https"),
    ],
)
async def test_wrong_provider_document_is_reported(
    provider: OpenIdProvider, document: dict[str, Any], reason: str
) -> None:
    provider.document = document
    with pytest.raises(ProviderUnavailable, match=reason):
        await OidcProvider(build_settings(provider.url)).start()


def build_settings(issuer: str, **more: Any) -> SignInSettings:
    more = {"oidc_roles": ("staff=viewer", "ada@example.com=owner")} | more
    return SignInSettings(
        oidc_issuer=issuer, oidc_client_id=CLIENT, oidc_client_secret=SECRET, console_url=URL, **more
    )


@pytest.mark.parametrize(("claims", "comes_in"), [({"email_verified": True}, True), ({}, False)])
async def test_only_verified_email_gives_a_role(
    provider: OpenIdProvider, claims: dict[str, Any], comes_in: bool
) -> None:
    provider.claims = {"sub": "1", "email": "ada@example.com", **claims}
    found = OidcProvider(build_settings(provider.url, oidc_role_claim="email"))
    begun = await found.start()
    async with httpx.AsyncClient() as browser:
        agreed = await browser.get(begun.url)
    code = dict(parse_qsl(urlsplit(agreed.headers["location"]).query))["code"]
    if comes_in:
        assert (await found.finish(code, None, begun.nonce, begun.code_verifier)).role == Role.OWNER
    else:
        with pytest.raises(SignInRefused, match="no value of your email has a role"):
            await found.finish(code, None, begun.nonce, begun.code_verifier)


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"sub": "1", "preferred_username": "ada", "email": "a@b.example"}, "1 (ada)"),
        ({"sub": "1", "email": "a+b@c.example"}, "1 (a+b@c.example)"),
        ({"sub": "1", "name": "Ada  (2)\u202e<b>"}, "1 (Ada  2b)"),
        ({"sub": "1", "name": "\u00c9va"}, "1 (\u00c9va)"),
        ({"sub": "1", "name": ["x"]}, "1"),
        ({"sub": "ada", "preferred_username": "ada"}, "ada"),
        ({"sub": "1", "name": "a" * 500}, f"1 ({'a' * 80})"),
    ],
)
def test_names_of_people_are_unique(claims: dict[str, Any], name: str) -> None:
    assert build_person_name(claims) == name


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("groups", ["a", "b"]),
        ("realm_access.roles", ["c"]),
        ("https://x.example/roles", ["d"]),
        ("groups.roles", []),
        ("nothing", []),
    ],
)
def test_a_claim_is_found_by_its_name_or_its_path(name: str, values: list[str]) -> None:
    claims = {
        "groups": ["a", 1, "b"],
        "realm_access": {"roles": ["c"]},
        "https://x.example/roles": "d",
    }
    assert read_claim(claims, name) == values


async def test_code_and_state_work_once_in_one_browser(
    console: EmbeddedService, person: Person, provider: OpenIdProvider
) -> None:
    back = await person.go_to_provider()
    other = Person(console)
    assert "started in another browser" in extract_text((await other.get(back)).text)
    kept = dict(person.cookies)
    assert (await person.get(back)).status_code == 303
    assert "started in another browser" in extract_text((await person.get(back)).text)
    person.cookies = kept
    assert "refused: the code is not good" in extract_text((await person.get(back)).text)
    await other.http.aclose()


async def test_many_failed_sign_ins_must_wait(person: Person, provider: OpenIdProvider) -> None:
    provider.changed = {"nonce": "another"}
    for _ in range(20):
        answer = await person.sign_in()
        if "Too many failed sign-ins" in answer.text:
            break
    asked = len(provider.token_requests)
    assert "Too many failed sign-ins" in extract_text((await person.sign_in()).text)
    assert len(provider.token_requests) == asked, "the provider is not asked"
