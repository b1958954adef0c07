"""A console that people sign in to: sessions, their end, and wrong tokens."""

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from agentchat.administration import admin_tokens
from agentchat.administration.admin_tokens import NewToken
from agentchat.console.shared.console_roles import Role
from agentchat.console.shared.sessions import Person, Sessions
from agentchat.console.shared.sign_in import keep_local_path
from agentchat.console.shared.sign_in_limit import AT_ONCE, SECONDS_EACH, SignInLimit
from agentchat.console.sign_in_settings import SignInSettings
from agentchat.directory.secret_encryption import Sealer
from agentchat.runtime.postgres import Pool
from tests.administrator import administrator
from tests.console.embedded import GUARDED, TOKEN, run_console
from tests.console.pages import Browser, extract_form, extract_text
from tests.support.embedded_service import EmbeddedService


@pytest.fixture
async def browser(guarded_console: EmbeddedService) -> AsyncIterator[Browser]:
    """Behind a proxy that ends TLS: the console sees the public host."""
    async with Browser(guarded_console.url, {"host": "console.example"}) as opened:
        yield opened


async def sign_in(browser: Browser, **written: str) -> str:
    """The cookie of the session."""
    page = await browser.get("/sign-in")
    response = await browser.submit(page.text, **({"name": "ada", "token": TOKEN} | written))
    return response.history[0].headers.get("set-cookie", "") if response.history else ""


async def test_pages_redirect_to_the_sign_in_and_back(browser: Browser) -> None:
    response = await browser.get("/health?a=1")
    assert response.request.url.path == "/sign-in"
    answer = await browser.submit(response.text, name="ada", token=TOKEN)
    assert answer.history[0].headers["location"] == "/health?a=1"


async def test_session_names_the_person_and_its_cookie_is_secure(browser: Browser) -> None:
    cookie = await sign_in(browser)
    assert cookie.startswith("__Host-agentchat_console=")
    assert {"httponly", "secure", "samesite=lax", "path=/"} <= set(cookie.lower().split("; "))
    assert "console:ada" in await browser.open_page("/health")
    copied = browser.cookies["__Host-agentchat_console"]
    out = await browser.post("/sign-out", {})
    ended = out.history[0].headers["set-cookie"]
    assert ended.startswith("__Host-agentchat_console=")
    assert {"max-age=0", "secure", "path=/"} <= set(ended.lower().split("; ")), "or browsers ignore it"
    browser.cookies["__Host-agentchat_console"] = copied
    assert (await browser.get("/health")).url.path == "/sign-in", "a copied cookie opens nothing"


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ({"token": "wrong"}, "Wrong token"),
        ({"token": ""}, "Wrong token"),
        ({"name": ""}, "Your name may have only letters"),
        ({"name": "a b"}, "Your name may have only letters"),
        ({"name": "\u00e4"}, "Your name may have only letters"),
        ({"name": "", "token": "at-ac-wrong"}, "Wrong token"),
    ],
)
async def test_wrong_name_or_token_is_explained(
    browser: Browser, written: dict[str, str], reason: str
) -> None:
    page = await browser.get("/sign-in")
    response = await browser.submit(page.text, **({"name": "ada", "token": TOKEN} | written))
    assert response.status_code == 403
    assert "set-cookie" not in response.headers
    assert reason in extract_text(response.text)


async def test_a_form_whose_session_has_ended_does_nothing(browser: Browser) -> None:
    await sign_in(browser)
    browser.cookies["__Host-agentchat_console"] = "ended"
    token = await browser.load_form_token("/sign-in")
    ended = await browser.http.post("/sign-out", data={"_csrf_token": token})
    assert ended.status_code == 401
    assert "What you wrote is kept in this tab" in extract_text(ended.text)


async def test_page_stays_when_its_parts_session_has_ended(browser: Browser) -> None:
    response = await browser.get("/health", **{"hx-request": "true"})
    assert (response.status_code, response.headers["hx-retarget"]) == (401, "#trouble")
    assert "<html" not in response.text
    assert 'href="/sign-in"' in response.text


async def test_a_session_ends_after_its_hours_and_with_its_token(
    pool: Pool, migrated_database_url: str
) -> None:
    def open_sessions(token: str) -> Sessions:
        return Sessions(pool, Sealer(b"k" * 32), SignInSettings(admin_token=token), "key")

    token = await open_sessions("a").start(Person(name="ada", role=Role.VIEWER))
    found = await open_sessions("a").find(token)
    assert found is not None
    assert (found.actor, found.role) == ("console:ada", Role.VIEWER)
    assert await open_sessions("b").find(token) is None
    assert await open_sessions("a").find(found.id) is None, "what the database has opens nothing"
    with psycopg.connect(migrated_database_url) as conn:
        conn.execute("UPDATE console_sessions SET ends_at = now() WHERE session_id = %s", [found.id])
    assert await open_sessions("a").find(token) is None


def test_an_address_may_try_ten_tokens_and_then_waits() -> None:
    now = 0.0
    limit = SignInLimit(lambda: now)
    for _ in range(AT_ONCE):
        assert limit.get_wait("a") == 0
        limit.add_failure("a")
    assert 0 < limit.get_wait("a") <= SECONDS_EACH + 1
    assert limit.get_wait("b") == 0
    now += SECONDS_EACH + 1
    assert limit.get_wait("a") == 0


FOREIGN = [
    *("https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "", "now", "//["),
    *(
        "/\t\\evil.example/x",
        "/\t/evil.example",
        "/\n/evil.example",
        "/\r\n//evil.example",
        "\t//evil.example",
    ),
    *(
        " //evil.example",
        "\\\\evil.example",
        "///evil.example",
        "/a//evil.example",
        "/now\\..",
    ),
    *("http:/evil.example", "http:evil.example", "/now#//evil.example", "/\u2028/evil.example", "/caf\u00e9"),
    "/now\n",
]
LOCAL = [
    *(
        "/",
        "/now?agent=a",
        "/conversations?q=a+b&tag=x%3Dy",
        "/conversations/0199?at=3&bar=m1",
        "/now?next=/a//b",
    ),
    *("/%09%5Cevil.example/x", "/agents/a-1/servers/shop_2", "/plans/Pro%20plus/", "/webhooks/e?status=all"),
]


@pytest.mark.parametrize("text", [*FOREIGN, *LOCAL])
def test_only_paths_of_the_console_are_kept(text: str) -> None:
    assert keep_local_path(text) == (text if text in LOCAL else "/")


async def test_sign_in_never_redirects_to_another_site(browser: Browser) -> None:
    text = "/\t\\evil.example/x"
    page = await browser.http.get("/sign-in", params={"next": text})
    assert extract_form(page.text, "/sign-in")["next"] == "/"
    answer = await browser.submit(page.text, name="ada", token=TOKEN, next=text)
    assert answer.history[0].headers["location"] == "/"


async def test_proxy_tells_the_address_whose_sign_ins_are_limited(environ: dict[str, str]) -> None:
    own = environ | GUARDED | {"AGENTCHAT_TRUSTED_PROXIES": "10.0.0.0/8, 127.0.0.1"}
    async with (
        run_console(own) as process,
        Browser(process.url, {"host": "console.example"}) as opened,
    ):

        async def is_signed_in(token: str, forwarded: str) -> bool:
            opened.http.headers["x-forwarded-for"] = forwarded
            page = await opened.get("/sign-in")
            return bool((await opened.submit(page.text, name="ada", token=token)).history)

        for port in range(AT_ONCE + 1):
            hops = f"198.51.100.{port}, 203.0.113.9:{port}, 10.1.2.3"
            assert not await is_signed_in("wrong", hops), "the hops before the last untrusted one are claims"
        assert not await is_signed_in(TOKEN, "203.0.113.9"), "this address has to wait"
        assert await is_signed_in(TOKEN, "203.0.113.10"), "others do not"
        assert await is_signed_in(TOKEN, "2001:db8:1:2::1")


async def test_sign_out_ends_open_streams(browser: Browser) -> None:
    await sign_in(browser)
    token, cookies = await browser.load_form_token(), dict(browser.cookies)
    async with asyncio.timeout(30), browser.http.stream("GET", "/now/stream") as stream:
        events = stream.aiter_lines()
        assert await anext(events) == "event: beat"
        browser.cookies = cookies
        assert (await browser.http.post("/sign-out", data={"_csrf_token": token})).url.path == "/sign-in"
        rest = [line async for line in events]
    assert "event: end" not in rest, "so that the browser connects again, and is led to the sign-in"


async def test_named_token_gives_its_role_until_it_is_revoked(browser: Browser, pool: Pool) -> None:
    admin = administrator(pool)
    issued = await admin_tokens.create(admin, NewToken(name="eve", role="viewer"))
    assert "__Host-agentchat_console=" in await sign_in(browser, name="", token=issued.token)
    assert "console:eve" in await browser.open_page("/health")
    refused = await browser.get("/audit")
    assert "you are signed in as viewer" in extract_text(refused.text)
    await admin_tokens.revoke(admin, "eve")
    assert (await browser.get("/health")).url.path == "/sign-in"
    assert await sign_in(browser, name="eve", token=issued.token) == ""


async def test_a_rehearsal_signs_in_and_out_and_changes_nothing(environ: dict[str, str]) -> None:
    own = environ | GUARDED | {"AGENTCHAT_REHEARSAL": "true"}
    async with (
        run_console(own) as process,
        Browser(process.url, {"host": "console.example"}) as opened,
    ):
        await sign_in(opened)
        refused = await opened.post("/accounts", {"name": "Acme"})
        assert refused.status_code == 503
        assert "this is a rehearsal" in extract_text(refused.text)
        assert (await opened.post("/sign-out", {})).url.path == "/sign-in"
        assert (await opened.get("/health")).url.path == "/sign-in"
