"""Every look at the text of a conversation is in the audit log, and a look is one row."""

from typing import Any

import pytest

from agentchat.console.frame.recent_views import VIEW_SECONDS, RecentViews
from tests.console.pages import Browser
from tests.conversations.given import ACCOUNT, asked, held, started, trace, turn
from tests.conversations.read_models import Storage, empty

PART = {"hx-request": "true"}
_ROWS = "SELECT action, kind, subject, after FROM audit_log WHERE actor = 'console:local' ORDER BY id"


class Audited:
    """The rows that the requests of a browser add."""

    def __init__(self, browser: Browser, storage: Storage) -> None:
        self.browser, self._storage, self._seen = browser, storage, 0

    async def rows(self, *asked_for: str, part: bool = False) -> list[tuple[Any, ...]]:
        for path in asked_for:
            async with self.browser.http.stream("GET", path, headers=PART if part else {}) as response:
                assert response.status_code == 200, path
                await anext(response.aiter_raw())
        rows = await self._storage.rows(_ROWS)
        rows, self._seen = rows[self._seen :], len(rows)
        return rows


@pytest.fixture
async def audited(browser: Browser, storage: Storage, migrated_database_url: str) -> Audited:
    await empty(migrated_database_url)
    found = Audited(browser, storage)
    await browser.get("/health")  # a session
    await found.rows()
    return found


def of(conversation_id: str) -> tuple[Any, ...]:
    return ("read", "conversation", conversation_id, {"account_id": ACCOUNT})


async def test_a_page_with_its_parts_and_its_stream_is_one_look(audited: Audited, storage: Storage) -> None:
    id_ = (await storage.told(*turn("r", "Hello", "Hi"))).conversation_id
    here = f"/conversations/{id_}"
    assert await audited.rows(here) == [of(id_)]
    parts = [f"{here}?at=3", f"{here}/stream?run={trace('r')}", f"{here}/events", here]
    assert await audited.rows(*parts, f"/playground/stream?trace={trace('r')}", part=True) == []
    assert await audited.rows(here) == [of(id_)], "who loads it again looks again"


@pytest.mark.parametrize(
    "path",
    [
        "/conversations/{id}",
        "/conversations/{id}/stream?run={run}",
        "/conversations/{id}/events",
        "/conversations/{id}/events/2",
        "/playground/stream?trace={run}",
    ],
)
@pytest.mark.parametrize("part", [False, True])
async def test_what_belongs_to_no_page_is_a_look_of_its_own(
    audited: Audited, storage: Storage, path: str, part: bool
) -> None:
    id_ = (await storage.told(*turn("s", "Hello", "Hi"))).conversation_id
    assert await audited.rows(path.format(id=id_, run=trace("s")), part=part) == [of(id_)]


async def test_another_session_looks_for_itself(audited: Audited, storage: Storage, browser: Browser) -> None:
    id_ = (await storage.told(*turn("r", "Hello", "Hi"))).conversation_id
    assert await audited.rows(f"/conversations/{id_}") == [of(id_)]
    browser.cookies.clear()
    await browser.get("/health")
    assert await audited.rows(f"/conversations/{id_}/stream?run={trace('r')}", part=True) == [of(id_)]


async def test_a_search_names_what_it_has_shown_once(audited: Audited, storage: Storage) -> None:
    one = (await storage.told(*turn("a", "I want a refund", "Of course."))).conversation_id
    two = (await storage.told(*turn("b", "I want a return", "Yes."))).conversation_id
    await storage.follow()

    def found(*ids: str) -> tuple[Any, ...]:
        return ("read", "conversations", "search", {"conversations": list(ids)})

    assert await audited.rows("/conversations?q=refund") == [found(one)]
    assert await audited.rows("/conversations?q=refun", "/conversations?q=nothing", part=True) == []
    assert await audited.rows("/conversations?q=want", part=True) == [found(two)]
    assert await audited.rows("/conversations/new?after=0", part=True) == [], "a count shows no text"
    assert await audited.rows("/conversations") == [found(two, one)]


async def test_inputs_of_tools_and_last_words_are_looks_too(audited: Audited, storage: Storage) -> None:
    waits = (await storage.told(asked("w"), started("w"), *held("w")[:-1])).conversation_id
    await storage.follow()
    inbox = ("read", "conversations", "approvals", {"conversations": [waits]})
    assert await audited.rows("/approvals") == [inbox]
    assert await audited.rows("/approvals/news", part=True) == []

    def watched(agent: str | None) -> tuple[Any, ...]:
        return ("read", "conversations", "now", {"account_id": None, "agent_id": agent})

    assert await audited.rows("/now") == [watched(None)]
    assert await audited.rows("/now/stream", "/now/stream", part=True) == []
    assert await audited.rows("/now/stream?agent=agent-1", part=True) == [watched("agent-1")]


def test_a_look_is_over_after_an_hour() -> None:
    now = 0.0
    looks = RecentViews(lambda: now)
    looks.add("session", "conversation", ["a"])
    assert looks.find_new("session", "conversation", ["a", "b"]) == ["b"]
    assert looks.find_new("other", "conversation", ["a"]) == ["a"]
    assert looks.find_new("session", "search", ["a"]) == ["a"]
    now = VIEW_SECONDS
    assert looks.find_new("session", "conversation", ["a"]) == ["a"]
