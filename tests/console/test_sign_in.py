"""A console that people sign in to: sessions, their end, wrong tokens, and forms that outlive a session."""

from collections.abc import AsyncIterator

import pytest

from console.frame.roles import Role
from console.frame.sessions import ServerClock, Sessions
from console.frame.sign_in import own_path
from console.frame.sign_in_limit import AT_ONCE, SECONDS_EACH, SignInLimit
from tests.console.pages import Browser, text_of
from tests.console.process import TOKEN, URL, ConsoleProcess


@pytest.fixture
async def browser(guarded: ConsoleProcess) -> AsyncIterator[Browser]:
    """Behind a proxy that ends TLS: the console sees the public host."""
    async with Browser(guarded.url, {"host": "console.example"}) as opened:
        opened.origin = URL
        opened.http.cookies.jar._policy.set_ok = lambda *_: True  # type: ignore[attr-defined]  # no TLS here
        yield opened


async def signed_in(browser: Browser, **written: str) -> str:
    """The text of the page that follows."""
    page = await browser.get("/sign-in")
    response = await browser.submit(page.text, **({"name": "ada", "token": TOKEN} | written))
    cookie = response.history[0].headers.get("set-cookie", "") if response.history else ""
    browser.http.headers["cookie"] = cookie.partition(";")[0]
    return cookie


async def test_without_a_session_every_page_leads_to_the_sign_in_and_back(browser: Browser) -> None:
    response = await browser.get("/health?a=1")
    assert response.request.url.path == "/sign-in"
    answer = await browser.http.post(
        "/sign-in",
        data={"name": "ada", "token": TOKEN, "next": "/health?a=1"},
        headers={"origin": URL},
        follow_redirects=False,
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/health?a=1")


async def test_a_session_names_the_person_and_its_cookie_is_for_this_host_over_tls(browser: Browser) -> None:
    cookie = await signed_in(browser)
    assert cookie.startswith("__Host-agentchat_console=")
    assert {"httponly", "secure", "samesite=strict", "path=/"} <= set(cookie.lower().split("; "))
    assert "console:ada" in await browser.page("/health")
    token = await browser.form_token()
    out = await browser.http.post("/sign-out", data={"form_token": token}, headers={"origin": URL})
    ended = out.history[0].headers["set-cookie"]
    assert ended.startswith("__Host-agentchat_console=")
    assert {"max-age=0", "secure", "path=/"} <= set(ended.lower().split("; ")), "or browsers ignore it"
    with_a_copy = await browser.http.get("/health", follow_redirects=False)
    assert with_a_copy.headers["location"].startswith("/sign-in"), "a copied cookie opens nothing"


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ({"token": "wrong"}, "not the administrator's token"),
        ({"token": ""}, "not the administrator's token"),
        ({"name": ""}, "A name has letters"),
        ({"name": "a b"}, "A name has letters"),
        ({"name": "\u00e4"}, "A name has letters"),
    ],
)
async def test_who_gives_something_wrong_is_told_what(
    browser: Browser, written: dict[str, str], reason: str
) -> None:
    page = await browser.get("/sign-in")
    response = await browser.submit(page.text, **({"name": "ada", "token": TOKEN} | written))
    assert response.status_code == 403
    assert "set-cookie" not in response.headers
    assert reason in text_of(response.text)


async def test_what_was_written_outlives_its_session(browser: Browser) -> None:
    written = {"reason": 'He said "no" & left'}
    ended = await browser.http.post("/sign-out", data=written, headers={"origin": URL})
    assert ended.status_code == 401
    assert "Your session has ended" in text_of(ended.text)
    back = await browser.submit(ended.text, name="ada", token=TOKEN)
    assert back.status_code == 200
    browser.http.headers["cookie"] = back.headers["set-cookie"].partition(";")[0]
    assert 'He said "no" & left' in text_of(back.text)
    done = await browser.submit(back.text)
    assert [each.status_code for each in done.history] == [303]


async def test_a_page_stays_as_it_is_where_its_part_has_no_session_any_more(browser: Browser) -> None:
    response = await browser.get("/health", **{"hx-request": "true"})
    assert (response.status_code, response.headers["hx-retarget"]) == (401, "#trouble")
    assert "<html" not in response.text
    assert 'href="/sign-in"' in response.text


async def test_a_link_of_another_site_leads_to_a_page_of_ours_that_has_the_cookie(browser: Browser) -> None:
    arrived = await browser.get("/health?a=1&b=2", **{"sec-fetch-site": "cross-site"})
    assert arrived.url.path == "/health"
    assert '<meta http-equiv="refresh" content="0; url=/health?a=1&amp;b=2">' in arrived.text


async def test_it_has_one_name(browser: Browser) -> None:
    assert (await browser.get("/sign-in", host="127.0.0.1")).status_code == 403


async def test_a_session_ends_after_its_hours_and_with_its_token() -> None:
    time = 1000.0

    async def now() -> float:
        return time

    def sessions(token: str) -> Sessions:
        return Sessions("key", token, ServerClock(now), hours=1.0)

    session = await sessions("a").begin("ada", Role.VIEWER)
    cookie = sessions("a").sealed(session)
    assert await sessions("a").opened(cookie) == session
    assert await sessions("b").opened(cookie) is None
    time += 3601
    assert await sessions("a").opened(cookie) is None


def test_an_address_may_try_ten_tokens_and_then_waits() -> None:
    now = 0.0
    limit = SignInLimit(lambda: now)
    for _ in range(AT_ONCE):
        assert limit.wait("a") == 0
        limit.was_wrong("a")
    assert 0 < limit.wait("a") <= SECONDS_EACH + 1
    assert limit.wait("b") == 0
    now += SECONDS_EACH + 1
    assert limit.wait("a") == 0


@pytest.mark.parametrize(
    "text",
    ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "", "now", "//["],
)
def test_after_signing_in_nobody_is_sent_to_another_site(text: str) -> None:
    assert own_path(text) == "/"
    assert own_path("/now?agent=a") == "/now?agent=a"
