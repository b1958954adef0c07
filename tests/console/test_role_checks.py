"""A role that a provider takes away ends soon, at every console; one that is away takes none at once."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest

from agentchat.console.shared.console_roles import Role
from agentchat.console.shared.oidc import OidcProvider
from agentchat.console.shared.sessions import GRACE_SECONDS, Sessions
from agentchat.console.shared.sessions import Person as SignedIn
from agentchat.console.sign_in_settings import SignInSettings
from agentchat.directory.secret_encryption import Sealer
from agentchat.runtime.postgres import Pool
from tests.console.embedded import run_console
from tests.console.openid_provider import CLIENT, EVERYBODY, SECRET, OpenIdProvider, name_provider
from tests.console.pages import extract_text
from tests.console.test_provider_sign_in import Person
from tests.support.embedded_service import EmbeddedService

_ROLES = "staff=viewer,ops=operator"
_NOW = "0.000001"
"""Minutes: a role is confirmed for each request."""


@pytest.fixture(autouse=True)
def as_it_was(provider: OpenIdProvider) -> Iterator[None]:
    provider.gives_refresh, provider.claims["groups"] = True, ["ops"]
    yield
    provider.is_away, provider.changed, provider.claims = False, {}, dict(EVERYBODY)
    provider.refreshes.clear()


@pytest.fixture(scope="module")
async def console(environ: dict[str, str], provider: OpenIdProvider) -> AsyncIterator[EmbeddedService]:
    async with run_console(environ | name_provider(provider, _ROLES, ROLE_MINUTES=_NOW)) as process:
        yield process


@pytest.fixture(scope="module")
async def other_console(environ: dict[str, str], provider: OpenIdProvider) -> AsyncIterator[EmbeddedService]:
    """A second console of the same system."""
    async with run_console(environ | name_provider(provider, _ROLES, ROLE_MINUTES=_NOW)) as process:
        yield process


@pytest.fixture
async def person(console: EmbeddedService) -> AsyncIterator[Person]:
    found = Person(console)
    await found.sign_in()
    yield found
    await found.http.aclose()


async def read_role(person: Person) -> str:
    """What the console takes them for; "" where they are to sign in again."""
    answer = await person.get("/health")
    if answer.status_code == 303:
        assert answer.headers["location"] == "/sign-in/begin?next=/health", "the provider may know them still"
        return ""
    assert answer.status_code == 200, extract_text(answer.text)
    return extract_text(answer.text).partition("console:user-1 (ada) ")[2].partition(" ")[0]


async def test_a_role_follows_the_provider_within_a_session(person: Person, provider: OpenIdProvider) -> None:
    assert await read_role(person) == "operator"
    provider.claims["groups"] = ["staff"]
    assert await read_role(person) == "viewer"
    refused = await person.get("/playground")
    assert (refused.status_code, "signed in as viewer" in extract_text(refused.text)) == (403, True)
    provider.claims["groups"] = ["ops"]
    assert await read_role(person) == "operator", "and comes back"
    assert len(set(provider.refreshes)) == len(provider.refreshes) > 3, "each token was good once"


@pytest.mark.parametrize("what", ["group", "person", "subject", "token"])
async def test_person_without_a_role_is_signed_out(
    person: Person, provider: OpenIdProvider, what: str
) -> None:
    match what:
        case "group":
            provider.claims["groups"] = []
        case "person":
            provider.end_sessions()
        case "subject":
            provider.claims["sub"] = "user-2"
        case "token":
            provider.changed = {"aud": "another"}
    assert await read_role(person) == ""
    asked = len(provider.refreshes)
    assert await read_role(person) == "", "and stays out"
    assert len(provider.refreshes) == asked


async def test_consoles_share_confirmed_roles(
    person: Person, other_console: EmbeddedService, provider: OpenIdProvider
) -> None:
    there = Person(other_console)
    there.cookies = person.cookies
    for each in (person, there, person, there):
        assert await read_role(each) == "operator", "the token that was used last is the next one's"
    provider.claims["groups"] = []
    assert await read_role(there) == ""
    assert await read_role(person) == ""
    await there.http.aclose()


async def test_only_one_console_asks_the_provider(
    person: Person, other_console: EmbeddedService, provider: OpenIdProvider
) -> None:
    there = Person(other_console)
    there.cookies = person.cookies
    provider.was_asked.clear()
    provider.may_answer.clear()
    try:
        waiting = asyncio.create_task(read_role(person))
        await asyncio.to_thread(provider.was_asked.wait, 10)
        assert await read_role(there) == "operator"
        assert len(provider.refreshes) == 1, "a token that is used twice is taken for stolen"
    finally:
        provider.may_answer.set()
    assert await waiting == "operator"
    await there.http.aclose()


async def test_signed_out_session_is_over_at_all_consoles(
    person: Person, other_console: EmbeddedService
) -> None:
    there = Person(other_console)
    there.cookies = dict(person.cookies)
    await person.post("/sign-out", {})
    assert await read_role(there) == ""
    await there.http.aclose()


async def test_role_holds_for_the_grace_time_without_provider(
    person: Person, provider: OpenIdProvider, environ: dict[str, str]
) -> None:
    provider.is_away = True
    assert await read_role(person) == "operator"
    make_older(environ, GRACE_SECONDS - 60)
    assert await read_role(person) == "operator"
    make_older(environ, GRACE_SECONDS + 60)
    waits = await person.get("/health")
    assert waits.status_code == 503
    assert "has not confirmed your role for 16 minutes" in extract_text(waits.text)
    provider.is_away = False
    make_older(environ, GRACE_SECONDS + 60)
    assert await read_role(person) == "operator", "the session goes on"


def make_older(environ: dict[str, str], seconds: float) -> None:
    """As if it had been confirmed so long ago, and nobody asked just now."""
    changed = (
        "UPDATE console_sessions SET checked_at = now() - make_interval(secs => %s), claimed_until = now()"
    )
    with psycopg.connect(environ["AGENTCHAT_DATABASE_URL"]) as conn:
        conn.execute(changed, [seconds])


async def test_stream_ends_when_the_role_must_be_confirmed(person: Person) -> None:
    async with asyncio.timeout(20):
        stream = await person.get("/now/stream")
    assert stream.headers["content-type"].startswith("text/event-stream")


async def test_session_without_refresh_token_is_short(
    console: EmbeddedService, provider: OpenIdProvider
) -> None:
    provider.gives_refresh = False
    found = Person(console)
    assert (await found.sign_in()).status_code == 303
    assert await read_role(found) == "", "the provider is passed again, and knows them"
    await found.http.aclose()


async def test_fresh_role_is_not_asked_for_again(pool: Pool, provider: OpenIdProvider) -> None:
    settings = SignInSettings(
        oidc_issuer=provider.url,
        oidc_client_id=CLIENT,
        oidc_client_secret=SECRET,
        oidc_roles=("ops=operator",),
    )
    sessions = Sessions(pool, Sealer(b"k" * 32), settings, "key", OidcProvider(settings))
    token = await sessions.start(SignedIn(name="ada", role=Role.OPERATOR, subject="1", refresh_token="r"))
    for _ in range(3):
        found = await sessions.find(token)
        assert (found is not None, provider.refreshes) == (True, [])


async def test_no_token_is_readable_in_the_database(person: Person, environ: dict[str, str]) -> None:
    with psycopg.connect(environ["AGENTCHAT_DATABASE_URL"]) as conn:
        rows: list[Any] = conn.execute(
            "SELECT refresh_token FROM console_sessions WHERE refresh_token IS NOT NULL"
        ).fetchall()
    assert rows
    assert all(row[0][:1] == b"\x01" for row in rows), "sealed"
