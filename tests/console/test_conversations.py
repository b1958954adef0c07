"""The page of conversations: a search over all accounts, with filters in its address."""

import re

import pytest

from agentchat.contracts import events
from tests.console.pages import Browser, extract_text
from tests.conversations.given import ACCOUNT, AT, trace, turn
from tests.conversations.read_models import Storage

pytestmark = pytest.mark.usefixtures("empty_read_models")


def read_ids(html: str) -> list[str]:
    return re.findall(r'class="title" href="/conversations/([0-9a-f-]{36})', html)


async def test_empty_list_says_how_to_start_a_conversation(storage: Storage, browser: Browser) -> None:
    assert "No conversations yet. Start one with agentchat chat" in await browser.open_page("/conversations")


async def test_search_by_words_account_and_day(storage: Storage, browser: Browser) -> None:
    found = await storage.add(*turn("a", "I want a <b>refund</b>", "Of course."))
    await storage.add(*turn("b", "Where is it?", "There."))
    await storage.follow()
    query = f"q=refund&account={ACCOUNT}&since=2026-11-21&until=2026-11-22"
    html = (await browser.get(f"/conversations?{query}")).text
    assert read_ids(html) == [found.conversation_id]
    assert "I want a &lt;b&gt;<mark>refund</mark>&lt;/b&gt;" in html
    assert f'?run={trace("a")}"' in html, "it leads to the run in which that was said"
    assert f'value="{ACCOUNT}" selected' in html, "the form holds what the address does"
    nothing = await browser.open_page("/conversations?q=refund&when=yesterday")
    assert "No conversations match" in nothing
    assert len(read_ids((await browser.get("/conversations")).text)) == 2


@pytest.mark.parametrize("query", ["since=soon", "end=lost", "tag=customer", "until=x&q=refund"])
async def test_a_wrong_filter_is_named(storage: Storage, browser: Browser, query: str) -> None:
    response = await browser.get(f"/conversations?{query}")
    assert response.status_code == 400
    assert f"{query.partition('=')[0]}: must be" in extract_text(response.text)


async def test_an_unknown_field_of_a_search_is_named(storage: Storage, browser: Browser) -> None:
    response = await browser.get("/conversations?q=label:late")
    assert response.status_code == 400
    assert "has label:, which is not one of from:, user: and metadata:" in extract_text(response.text)


async def test_a_tag_is_a_filter(storage: Storage, browser: Browser) -> None:
    tagged = events.ConversationDescribed(trace_id=trace("x"), at=AT, metadata={"customer": "C-77 & Co"})
    found = await storage.add(*turn("a", "Hello", "Hi"), tagged)
    await storage.add(*turn("b", "Hello", "Hi"))
    await storage.follow()
    html = (await browser.get("/conversations")).text
    (link,) = re.findall(r'class="chip" href="([^"]+)"', html)
    assert read_ids((await browser.get(link.replace("&amp;", "&"))).text) == [found.conversation_id]


async def test_list_has_pages_and_counts_new_conversations(storage: Storage, browser: Browser) -> None:
    told = [await storage.add(*turn(f"t{number}", "refund", "ok")) for number in range(28)]
    made = sorted(each.conversation_id for each in told)  # two of one millisecond are in any order
    await storage.follow()
    first = (await browser.get("/conversations?q=refund")).text
    (more,) = re.findall(r'class="more"><td colspan="10"><a class="button" href="([^"]+)"', first)
    second = (await browser.get(more.replace("&amp;", "&"), **{"hx-request": "true"})).text
    assert "<html" not in second
    assert read_ids(first) + read_ids(second) == made[::-1]
    new = extract_text((await browser.get(f"/conversations/new?q=refund&after={made[-4]}")).text)
    assert new == "3 new"
    assert extract_text((await browser.get(f"/conversations/new?q=refund&after={made[-1]}")).text) == ""
