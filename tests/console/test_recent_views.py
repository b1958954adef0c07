"""Every look at the text of a conversation is in the audit log, and a look is one row."""

from typing import Any

import pytest

from agentchat.console.shared.recent_views import VIEW_SECONDS, RecentViews
from tests.console.pages import Browser
from tests.conversations.given import (
    ACCOUNT,
    build_held_call,
    build_run_started,
    build_user_message,
    trace,
    turn,
)
from tests.conversations.read_models import Storage, empty_tables

PART = {"hx-request": "true"}
_ROWS = "SELECT action, kind, subject, after FROM audit_log WHERE actor = 'console:local' ORDER BY id"


class Audited:
    """The rows that the requests of a browser add."""

    def __init__(self, browser: Browser, storage: Storage) -> None:
        self.browser, self._storage, self._seen = browser, storage, 0

    async def read_rows(self, *asked_for: str, part: bool = False) -> list[tuple[Any, ...]]:
        for path in asked_for:
            async with self.browser.http.stream("GET", path, headers=PART if part else {}) as response:
                assert response.status_code == 200, path
                await anext(response.aiter_raw())
        rows = await self._storage.rows(_ROWS)
        rows, self._seen = rows[self._seen :], len(rows)
        return rows


@pytest.fixture
async def audit(browser: Browser, storage: Storage, migrated_database_url: str) -> Audited:
    await empty_tables(migrated_database_url)
    found = Audited(browser, storage)
    await browser.get("/health")  # a session
    await found.read_rows()
    return found


def expect_view(conversation_id: str) -> tuple[Any, ...]:
    return ("read", "conversation", conversation_id, {"account_id": ACCOUNT})


async def test_page_with_parts_and_stream_is_one_view(audit: Audited, storage: Storage) -> None:
    id_ = (await storage.add(*turn("r", "Hello", "Hi"))).conversation_id
    here = f"/conversations/{id_}"
    assert await audit.read_rows(here) == [expect_view(id_)]
    parts = [f"{here}?at=3", f"{here}/stream?run={trace('r')}", f"{here}/events", here]
    assert await audit.read_rows(*parts, f"/playground/stream?trace={trace('r')}", part=True) == []
    assert await audit.read_rows(here) == [expect_view(id_)], "who loads it again looks again"


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
async def test_part_without_its_page_is_a_view(audit: Audited, storage: Storage, path: str) -> None:
    id_ = (await storage.add(*turn("s", "Hello", "Hi"))).conversation_id
    assert await audit.read_rows(path.format(id=id_, run=trace("s")), part=True) == [expect_view(id_)]


async def test_search_records_each_shown_conversation_once(audit: Audited, storage: Storage) -> None:
    one = (await storage.add(*turn("a", "I want a refund", "Of course."))).conversation_id
    two = (await storage.add(*turn("b", "I want a return", "Yes."))).conversation_id
    await storage.follow()

    def expect_search(*ids: str) -> tuple[Any, ...]:
        return ("read", "conversations", "search", {"conversations": list(ids)})

    assert await audit.read_rows("/conversations?q=refund") == [expect_search(one)]
    assert await audit.read_rows("/conversations?q=refun", "/conversations?q=nothing", part=True) == []
    assert await audit.read_rows("/conversations?q=want", part=True) == [expect_search(two)]
    assert await audit.read_rows("/conversations/new?after=0", part=True) == [], "a count shows no text"
    assert await audit.read_rows("/conversations") == [expect_search(two, one)]
    exported = ("read", "conversations", "search", {"csv": "q=refund"})
    assert await audit.read_rows("/conversations.csv?q=refund") == [exported]


async def test_tool_inputs_and_last_words_are_views_too(audit: Audited, storage: Storage) -> None:
    waits = (
        await storage.add(build_user_message("w"), build_run_started("w"), *build_held_call("w")[:-1])
    ).conversation_id
    await storage.follow()
    inbox = ("read", "conversations", "approvals", {"conversations": [waits]})
    assert await audit.read_rows("/approvals") == [inbox]
    assert await audit.read_rows("/approvals/news", part=True) == []

    def expect_watch(agent: str | None) -> tuple[Any, ...]:
        watched = {"account_id": None, "account_ids": None, "agent_id": agent}
        return ("read", "conversations", "now", watched)

    assert await audit.read_rows("/now") == [expect_watch(None)]
    assert await audit.read_rows("/now/stream", "/now/stream", part=True) == []
    assert await audit.read_rows("/now/stream?agent=agent-1", part=True) == [expect_watch("agent-1")]


def test_view_ends_after_an_hour() -> None:
    now = 0.0
    looks = RecentViews(lambda: now)
    looks.add("session", "conversation", ["a"])
    assert looks.find_new("session", "conversation", ["a", "b"]) == ["b"]
    assert looks.find_new("other", "conversation", ["a"]) == ["a"]
    assert looks.find_new("session", "search", ["a"]) == ["a"]
    now = VIEW_SECONDS
    assert looks.find_new("session", "conversation", ["a"]) == ["a"]
