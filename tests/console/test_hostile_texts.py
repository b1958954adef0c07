"""Texts of customers, models, tools and operators on each page that shows them: never markup, of any size."""

from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from agentchat.console.shared.assets import Assets
from agentchat.contracts import events
from tests.console.pages import Browser, extract_text
from tests.conversations.given import (
    AT,
    build_held_call,
    build_run_started,
    build_tool_called,
    build_tool_returned,
    build_user_message,
    trace,
    turn,
    use,
)
from tests.conversations.read_models import Storage

_MARK = "hostile"
_HOSTILE = (
    f"{_MARK} <script>alert(1)</script><img src=x onerror=alert(2)>\"'><svg/onload=alert(3)>"
    " [a](javascript:alert(4)) ![b](https://elsewhere.example/pixel) <style>*{display:none}</style>"
    " {{ 7919 * 6101 }} \u202etxt.exe\u2066 </textarea></script></title>"
)
_NAME = f'{_MARK} <script>a()</script>"><img src=x onerror=a()>'
_OURS = "/static/"
_NEVER = {"iframe", "object", "embed", "base", "style", "video", "audio"}


class _Judge(HTMLParser):
    """Collects what a browser would run, or load from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        address = given.get("src") or given.get("href") or given.get("action") or ""
        runs = any(name.startswith("on") or name in ("style", "srcdoc") for name in given)
        loads = tag in ("script", "img", "link", "use", "source") and not address.startswith(_OURS)
        leads = address.split(":")[0].lower() in ("javascript", "data", "vbscript")
        if tag in _NEVER or runs or loads or leads:
            self.found.append(self.get_starttag_text() or tag)


def find_harm(html: str) -> list[str]:
    judge = _Judge()
    judge.feed(html)
    return judge.found


def test_harmful_markup_is_detected() -> None:
    assert find_harm(_HOSTILE) != []
    assert len(find_harm("<a href='JavaScript:x'><p onclick=x><img src=http://x><iframe><a href=/now>")) == 4
    assert find_harm(f'<script src="{Assets.read().build_url("console.js")}"></script>') == []


@pytest.fixture
async def pages(browser: Browser, storage: Storage) -> list[str]:
    """Of things with hostile names and contents."""
    account = (await browser.post("/accounts", {"name": _NAME, "plan": "Starter"})).url.path
    agent = {"account_id": account.rpartition("/")[2], "name": _NAME, "provider": "anthropic", "model": "m"}
    agent |= {"system_prompt": _HOSTILE, "parameters": '{"max_tokens": 100}', "allow_request_schema": "on"}
    shop = (await browser.post("/agents/new", agent)).url.path
    base = {"account_id": agent["account_id"], "name": _NAME, "language": "english"}
    knowledge = (await browser.post("/knowledge", base)).url.path
    document = {"file": ("hostile.md", f"# {_HOSTILE}\n\n{_HOSTILE}".encode())}
    await browser.http.post(
        f"{knowledge}/documents",
        data={"_csrf_token": await browser.load_form_token()},
        files=document,
    )
    call = use("one", name="get_order", order=_HOSTILE)
    title = events.ConversationDescribed(
        trace_id=trace("a"), at=AT, title=_HOSTILE, metadata={"k<b>": _HOSTILE[:200]}
    )
    told = await storage.add(
        *turn("a", _HOSTILE, _HOSTILE),
        title,
        build_user_message("b", _HOSTILE),
        build_run_started("b"),
        *build_tool_called([call], "b"),
        build_tool_returned("one", _HOSTILE, word="b"),
    )
    asks = [
        replace(each, reason=_HOSTILE) if isinstance(each, events.ApprovalDecided) else each
        for each in build_held_call("d", "call-d")
    ]
    await storage.add(
        build_user_message("c", _HOSTILE), build_run_started("c"), *build_held_call("c", "call-c")[:-1]
    )
    await storage.add(build_user_message("d", _HOSTILE), build_run_started("d"), *asks)
    await storage.follow()
    here = f"/conversations/{told.conversation_id}"
    agent_id = shop.rpartition("/")[2]
    return [
        account,
        "/accounts",
        shop,
        "/agents",
        knowledge,
        f"{knowledge}?q=hostile",
        "/knowledge",
        here,
        f"{here}/events",
        f"{here}/events/3",
        f"{here}?at=4",
        "/conversations?q=hostile",
        f"/conversations?q={_MARK}+<script>&tag=<b>=<b>",
        "/now",
        "/approvals",
        "/approvals/approval-c-call-c",
        "/approvals?status=approved",
        f"/playground?agent={agent_id}",
        f"/what-if?agent={agent_id}",
        f"/what-if?runs={_HOSTILE[:80]}",
    ]


async def test_no_text_runs_or_loads_anything(browser: Browser, pages: list[str]) -> None:
    shown = 0
    for path in pages:
        html = (await browser.get(path)).text
        assert find_harm(html) == [], path
        assert "48313819" not in html, "no text is a template"
        shown += _MARK in extract_text(html)
    assert shown > len(pages) - 4, "the others are without texts"
