"""What every page of the console has: headers, assets, sessions, errors as pages."""

import re

import pytest

from console.frame.access import TOKEN_FIELD
from console.frame.outer import HEADERS
from console.frame.sessions import ServerClock, Sessions
from tests.console.pages import Browser, text_of


@pytest.mark.requirement("CONSOLE-CLOSED")
async def test_a_page_may_load_from_the_console_alone(browser: Browser) -> None:
    response = await browser.get("/health")
    assert response.headers["content-security-policy"].startswith("default-src 'self';")
    assert HEADERS.items() <= dict(response.headers).items()
    assert "no-store" in response.headers["cache-control"]
    assert (
        re.findall(r'<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|(?:src|href)="(?!/|#)', response.text)
        == []
    )


@pytest.mark.requirement("CONSOLE-ASSETS")
async def test_every_file_that_a_page_names_is_kept_by_the_browser(browser: Browser) -> None:
    names = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', (await browser.get("/health")).text))
    assert {name.rsplit("/")[-1] for name in names} >= {"console.css", "console.js", "htmx.min.js"}
    for name in names:
        response = await browser.get(name)
        assert response.status_code == 200, name
        assert "immutable" in response.headers["cache-control"]
        assert response.headers["content-security-policy"]


@pytest.mark.requirement("CONSOLE-ASSETS")
@pytest.mark.parametrize("path", ["/static/0000/console.css", "/static/../settings.py", "/nothing", "/%00"])
async def test_what_is_not_there_is_a_page_that_says_so(browser: Browser, path: str) -> None:
    response = await browser.get(path)
    assert response.status_code == 404
    assert "Not found" in text_of(response.text)
    assert 'href="/"' in response.text


@pytest.mark.requirement("CONSOLE-CLOSED")
async def test_a_session_is_a_cookie_that_no_script_and_no_other_site_gets(browser: Browser) -> None:
    cookie = (await browser.get("/health")).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "set-cookie" not in (await browser.get("/health")).headers


@pytest.mark.requirement("CONSOLE-CLOSED")
@pytest.mark.parametrize("host", ["evil.example", "console.local:80", "127.0.0.1.evil.example"])
async def test_a_name_of_another_site_gets_nothing(browser: Browser, host: str) -> None:
    assert (await browser.get("/health", host=host)).status_code == 403


@pytest.mark.requirement("CONSOLE-CLOSED")
async def test_a_session_and_its_form_token_are_what_we_signed() -> None:
    async def now() -> float:
        return 1000.0

    sessions, others = (Sessions(key, None, ServerClock(now), 1.0) for key in ("key", "another key"))
    session = sessions.local()
    cookie = sessions.cookie(session)
    assert await sessions.opened(cookie) == session
    changed = f"{'A' if cookie[0] != 'A' else 'B'}{cookie[1:]}"
    for foreign in (others.cookie(session), changed, cookie[:-1], cookie.partition(".")[0], "", "."):
        assert await sessions.opened(foreign) is None
    token = sessions.form_token(session)
    assert sessions.is_form_token(session, token)
    for foreign in (others.form_token(session), sessions.form_token(sessions.local()), "", "\xff"):
        assert not sessions.is_form_token(session, foreign)


@pytest.mark.requirement("CONSOLE-CLOSED")
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1"])
async def test_a_form_of_another_site_is_refused(browser: Browser, origin: str) -> None:
    response = await browser.post("/sign-out", {}, origin=origin)
    assert response.status_code == 403
    assert "another site" in text_of(response.text)


@pytest.mark.requirement("CONSOLE-CLOSED")
@pytest.mark.parametrize("token", ["", "0" * 64, "\xff"])
async def test_a_form_without_its_sessions_token_does_nothing_and_comes_back_whole(
    browser: Browser, token: str
) -> None:
    await browser.get("/health")
    written = {"reason": 'It is "late" <b>', TOKEN_FIELD: token}
    response = await browser.http.post("/sign-out", data=written, headers={"origin": browser.url})
    assert response.status_code == 403
    assert response.headers["hx-retarget"] == "#main"
    assert "Send it again?" in text_of(response.text)
    assert 'value="It is &#34;late&#34; &lt;b&gt;"' in response.text
    again = await browser.submit(response.text)
    assert again.request.url.path == "/now"
