"""What every page of the console has: headers, assets, sessions, errors as pages."""

import re

import pytest

from agentchat.console.shared.access_check import is_local_path
from agentchat.console.shared.console_middleware import HEADERS
from tests.console.pages import Browser, extract_text


async def test_a_page_loads_only_from_the_console(browser: Browser) -> None:
    response = await browser.get("/health")
    assert response.headers["content-security-policy"].startswith("default-src 'self';")
    assert HEADERS.items() <= dict(response.headers).items()
    assert "no-store" in response.headers["cache-control"]
    assert (
        re.findall(r'<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|(?:src|href)="(?!/|#)', response.text)
        == []
    )


async def test_browsers_cache_every_file_of_a_page(browser: Browser) -> None:
    names = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', (await browser.get("/health")).text))
    assert {name.rsplit("/")[-1] for name in names} >= {"console.css", "console.js", "htmx.min.js"}
    for name in names:
        response = await browser.get(name)
        assert response.status_code == 200, name
        assert "immutable" in response.headers["cache-control"]
        assert response.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/static/0000/console.css", "/static/../settings.py", "/nothing", "/%00"])
async def test_unknown_pages_are_not_found(browser: Browser, path: str) -> None:
    response = await browser.get(path)
    assert response.status_code == 404
    assert "Not found" in extract_text(response.text)
    assert 'href="/"' in response.text


async def test_session_cookie_is_http_only_and_same_site(browser: Browser) -> None:
    cookie = (await browser.get("/health")).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "set-cookie" not in (await browser.get("/health")).headers


@pytest.mark.parametrize(
    "path", ["/health", "/nothing", "//evil.example", "/static/x.css", "/healthz/x", "/sign-in"]
)
@pytest.mark.parametrize("host", ["evil.example", "console.local:80", "127.0.0.1.evil.example", ""])
async def test_unknown_host_is_refused_on_every_path(browser: Browser, host: str, path: str) -> None:
    answer = await browser.get(browser.url + path, host=host)
    assert (answer.status_code, answer.headers["content-type"]) == (403, "text/plain; charset=utf-8")
    assert "open the console at localhost" in answer.text


async def test_probes_need_no_known_host(browser: Browser) -> None:
    assert (await browser.get("/healthz", host="10.0.0.7:8085")).status_code == 200


@pytest.mark.parametrize(
    "path", ["//evil.example", "//evil.example/%2e%2e?a=1", "/%5C%5Cevil.example", "/%09/evil"]
)
async def test_error_page_links_to_no_other_site(browser: Browser, path: str) -> None:
    answer = await browser.get(browser.url + path)
    assert answer.status_code == 404
    links = re.findall(r'href="([^"]*)"', answer.text)
    assert links
    assert all(is_local_path(link.partition("#")[0] or "/") for link in links), links


@pytest.mark.parametrize("token", ["", "0" * 128, "\xff"])
async def test_a_form_without_the_browsers_token_does_nothing(browser: Browser, token: str) -> None:
    await browser.get("/health")
    response = await browser.http.post("/sign-out", data={"_csrf_token": token})
    assert response.status_code == 403
    assert "was sent by another site" in extract_text(response.text)


@pytest.mark.parametrize(("method", "target"), [("GET", None), ("POST", "#trouble")])
async def test_error_of_a_part_is_a_part_and_forms_stay(
    browser: Browser, method: str, target: str | None
) -> None:
    headers = {"hx-request": "true", "x-form-token": await browser.load_form_token()}
    response = await browser.http.request(method, "/agents/nobody", headers=headers)
    assert (response.status_code, response.headers.get("hx-retarget")) == (404, target)
    assert "<html" not in response.text
    assert "Not found" in extract_text(response.text)


_ID = "019ac9e4-0000-7000-8000-000000000000"
_HUGE = "9" * 30


@pytest.mark.parametrize(
    "path",
    [
        "/now?account=%00",
        "/now?agent=%ff",
        "/conversations?account=%00",
        "/conversations?agent=%00&tag=%00=a&tool=%00&before=%00",
        "/conversations?q=%00&before=x",
        "/conversations/new?after=%00",
        f"/conversations/{_ID}?at={_HUGE}&run=%00",
        f"/conversations/{_ID}/events/{_HUGE}",
        f"/conversations/{_ID}/stream?run=%00",
        "/traces/%00",
        "/approvals?account_id=%00&cursor=%00",
        "/approvals/%00",
        "/approvals/news?newest=%00&shown=-1",
        f"/approvals/news?shown={_HUGE}",
        "/what-if?agent=%00",
        f"/what-if?agent={_ID}&version={_HUGE}",
        "/what-if?runs=%00",
        "/what-if/%00",
        "/playground?agent=%00",
        f"/playground?agent={_ID}&version={_HUGE}",
        "/playground?conversation=%00",
        "/playground?fork=%00:%00",
        "/playground/stream?trace=%00",
        "/agents?account_id=%00&cursor=%00",
        "/agents/%00",
        "/agents/new?account_id=%00",
        f"/agents/{_ID}/diff?old={_HUGE}&new=-{_HUGE}",
        f"/agents/{_ID}/servers/%00",
        "/knowledge?cursor=%00",
        "/knowledge/%00?q=%00",
        "/accounts?month=%00",
        "/accounts/%00?month=x",
        "/plans/%00",
        "/webhooks?account_id=%00&cursor=%00",
        "/webhooks/%00?status=%00",
        "/sign-in?next=//[",
    ],
)
async def test_odd_addresses_cause_no_internal_error(browser: Browser, path: str) -> None:
    response = await browser.get(path)
    assert response.status_code < 500, extract_text(response.text)[:400]


async def test_files_are_compressed_if_the_browser_accepts_it(browser: Browser) -> None:
    (path,) = re.findall(r'href="(/static/[^"]+/console.css)"', (await browser.get("/health")).text)
    for accepted, encoding in (("gzip, br", "gzip"), ("identity", None)):
        response = await browser.get(path, **{"accept-encoding": accepted})
        assert response.headers.get("content-encoding") == encoding
        assert "--" in response.text, "it is the style sheet"


async def test_console_script_listens_before_htmx_opens_streams(browser: Browser) -> None:
    """Deferred scripts and modules run in the order of the page."""
    html = (await browser.get("/now")).text
    names = [name.rsplit("/")[-1] for name in re.findall(r'<script src="([^"]+)"', html)]
    assert names.index("console.js") < names.index("htmx.min.js") < names.index("hx-sse.min.js")
