"""The lists of runs and of conversations: each sort and filter, page by page, against a model in Python."""

import random
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

import pytest

from agentchat.conversations.queries import sorted_list
from agentchat.conversations.queries.conversation_search import (
    CONVERSATIONS,
    ConversationSearch,
    find_conversations,
)
from agentchat.conversations.queries.find_runs import RUNS, RunFilter, RunRow, find_runs
from agentchat.conversations.queries.sorted_list import ACTIVITY, BY_ACTIVITY, RowCount, SortOrder
from tests.conversations.given import AT
from tests.conversations.read_models import Storage

pytestmark = pytest.mark.usefixtures("empty_database")

_TEXTS = ("account_id", "user_id", "agent_id", "model", "form", "code")
_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")
_NUMBERS = {"agent_version": 1, "first_token_ms": 400, "cost": 0.25}


_CONVERSATIONS = [f"019ac9e4-0000-7000-8000-00000000000{number}" for number in range(9)]


def build_row(number: int, chance: random.Random) -> dict[str, Any]:
    """A row of the ledger; every value but those of a table's NOT NULL columns may be missing."""
    start, took = chance.randrange(59), chance.choice([None, *range(60)])
    texts = {name: chance.choice([None, "a", "b", "c"]) for name in _TEXTS} | {"account_id": "a"}
    numbers = {
        name: chance.choice([None, *(unit * n for n in range(1, 4))]) for name, unit in _NUMBERS.items()
    }
    return {
        "trace_id": f"{number:032}",
        "conversation_id": chance.choice(_CONVERSATIONS[:7]),
        "attempts": 1,
        "rounds": 1,
        **texts,
        **numbers,
        **{name: chance.randrange(100) for name in _TOKENS},
        "tool_calls": chance.randrange(3),
        "state": "running" if took is None else chance.choice(["completed", "failed", "cancelled"]),
        "duration_ms": None if took is None else (60 + took - start) * 60_000 - 500,
        "requested_at": f"2026-11-21T09:{start:02}:00.000000Z",
        "started_at": f"2026-11-21T09:{start:02}:01.000000Z",
        "ended_at": None if took is None else f"2026-11-21T10:{took:02}:00.500000Z",
    }


async def put_rows(storage: Storage) -> list[RunRow]:
    chance = random.Random(36)
    async with storage.as_owner() as owner:

        async def insert(table: str, **row: object) -> None:
            names, places = ", ".join(row), ", ".join(["%s"] * len(row))
            query = f"INSERT INTO {table} ({names}) VALUES ({places})"
            await owner.execute(query.encode(), list(row.values()))

        rows = [build_row(number, chance) for number in range(40)]
        given_scores: dict[str, list[float]] = {conversation_id: [] for conversation_id in _CONVERSATIONS}
        for row in rows:
            scores = chance.choices([-1, 0.5, 1], k=chance.randrange(3))
            given_scores[row["conversation_id"]] += scores
            await insert("runs", **row, rating=fmean(scores) if scores else None)
            rated = {"trace_id": row["trace_id"], "conversation_id": row["conversation_id"], "given_at": AT}
            for name, score in enumerate(scores):
                given = {"message_id": row["trace_id"], "on_behalf_of": str(name), "score": score}
                await insert("feedback", account_id="a", **rated, **given)
        for number, conversation_id in enumerate(_CONVERSATIONS):
            at = f"2026-11-21T12:{chance.randrange(9)}0:00.000000Z"
            sizes = {"message_count": number % 3, "events": 1, "bytes": 1, "listed": True}
            own = [row for row in rows if row["conversation_id"] == conversation_id]
            costs = [row["cost"] for row in own]
            own_scores = given_scores[conversation_id]
            sums = {
                "rating": fmean(own_scores) if own_scores else None,
                "tokens": sum(row[name] for row in own for name in _TOKENS),
                "cost": None if None in costs else sum(costs),
            }
            said = {"title": chance.choice(["x", "y", None]), "created_at": AT, "updated_at": at}
            await insert(
                "conversations", conversation_id=conversation_id, account_id="a", **sizes, **sums, **said
            )
    return (await find_runs(storage.pool, RunFilter(), limit=100)).rows


def sort_rows(rows: Sequence[object], order: SortOrder, name: str = "trace_id") -> list[str]:
    def build_key(row: object) -> tuple[bool, Any, str]:
        value = getattr(row, order.column)
        return value is not None, "" if value is None else value, getattr(row, name)

    return [getattr(each, name) for each in sorted(rows, key=build_key, reverse=not order.ascending)]


async def read_pages(storage: Storage, wanted: RunFilter, order: SortOrder) -> list[str]:
    found: list[str] = []
    after = None
    while (page := await find_runs(storage.pool, wanted, order=order, after=after, limit=7)).rows:
        found += [row.trace_id for row in page.rows]
        after = page.places[-1]
    return found


async def test_each_sort_has_every_row_once_in_its_order(storage: Storage) -> None:
    rows = await put_rows(storage)
    assert len(rows) == 40
    assert set(RUNS.keys) == set(RunRow.__struct_fields__) - {"trace_id", "conversation_id", "is_waiting"}
    for column in RUNS.keys:
        for order in (SortOrder(column), SortOrder.parse(f"{column}:asc")):
            assert await read_pages(storage, RunFilter(), order) == sort_rows(rows, order), order


FILTERS: list[tuple[RunFilter, Callable[[RunRow], bool]]] = [
    (RunFilter(account_id="a", user_id="b"), lambda row: row.user_id == "b"),
    (RunFilter(agent_id="a", agent_version=2), lambda row: row.agent_id == "a" and row.agent_version == 2),
    (RunFilter(state="failed", code="b"), lambda row: row.state == "failed" and row.code == "b"),
    (RunFilter(model="c"), lambda row: row.model == "c"),
    (RunFilter(rating="good"), lambda row: row.rating is not None and row.rating > 0),
    (RunFilter(rating="bad"), lambda row: row.rating is not None and row.rating < 0),
    (RunFilter(min_cost=0.5), lambda row: row.cost is not None and row.cost >= 0.5),
    (RunFilter(min_tokens=200), lambda row: row.tokens >= 200),
    (
        RunFilter(min_duration_ms=2_400_000),
        lambda row: row.duration_ms is not None and row.duration_ms >= 2_400_000,
    ),
    (
        RunFilter(since="2026-11-21T09:30", until="2026-11-21T10:20"),
        lambda row: "2026-11-21T09:30" <= str(row.last_activity) < "2026-11-21T10:20",
    ),
    (RunFilter(account_id="b"), lambda row: False),
]


async def test_each_filter_finds_and_counts_what_matches(storage: Storage) -> None:
    rows = await put_rows(storage)
    for wanted, matches in FILTERS:
        expected = sort_rows([row for row in rows if matches(row)], SortOrder("tokens"))
        assert await read_pages(storage, wanted, SortOrder("tokens")) == expected, wanted
        for order in (BY_ACTIVITY, SortOrder("tokens")):
            counted = await find_runs(storage.pool, wanted, order=order, limit=1, counts=True)
            assert counted.total == RowCount(len(expected)), wanted


async def test_each_sort_of_conversations_has_sums_of_their_runs(storage: Storage) -> None:
    runs = await put_rows(storage)
    listed = (await find_conversations(storage.pool, ConversationSearch(), limit=100)).rows
    assert len(listed) == len(_CONVERSATIONS)
    for row in listed:
        own = [each for each in runs if each.conversation_id == row.id]
        assert row.tokens == sum(each.tokens for each in own)
        costs = [each.cost for each in own]
        assert row.cost == (None if None in costs else sum(each or 0 for each in costs))
        assert row.state in [each.state for each in own] or (row.state, own) == (None, [])
    fields = {"created": "id", ACTIVITY: "updated_at"}
    for column in CONVERSATIONS.keys:
        for order in (SortOrder(column), SortOrder(column, ascending=True)):
            found: list[str] = []
            before = None
            wanted = ConversationSearch(sort=order)
            while (page := await find_conversations(storage.pool, wanted, before=before, limit=4)).rows:
                found += [row.id for row in page.rows]
                before = page.places[-1]
            assert found == sort_rows(listed, SortOrder(fields.get(column, column), order.ascending), "id")
    first = await find_conversations(storage.pool, ConversationSearch(), limit=1, counts=True)
    assert first.total == RowCount(len(listed))


async def test_conversations_are_found_by_the_least_sum_of_their_runs(storage: Storage) -> None:
    await put_rows(storage)
    listed = (await find_conversations(storage.pool, ConversationSearch(), limit=100)).rows
    for expected, wanted in (
        ({row.id for row in listed if row.tokens >= 1_200}, ConversationSearch(min_tokens=1_200)),
        ({row.id for row in listed if (row.cost or 0) >= 0.5}, ConversationSearch(min_cost=0.5)),
    ):
        assert 0 < len(expected) < 7, wanted
        found = await find_conversations(storage.pool, wanted, limit=9, counts=True)
        assert ({row.id for row in found.rows}, found.total) == (expected, RowCount(len(expected)))


@pytest.mark.parametrize("order", [BY_ACTIVITY, SortOrder("cost")])
async def test_more_than_the_most_are_counted_to_it(
    storage: Storage, order: SortOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorted_list, "MOST", 30)
    await put_rows(storage)
    for wanted, total in (
        (RunFilter(), RowCount(30, is_exact=False)),
        (RunFilter(state="lost"), RowCount(0)),
    ):
        assert (await find_runs(storage.pool, wanted, order=order, limit=1, counts=True)).total == total


@pytest.mark.parametrize("most", [30, 39, 40])
async def test_counted_pages_are_those_of_the_list(
    storage: Storage, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorted_list, "MOST", most)
    rows = await put_rows(storage)
    for order in (BY_ACTIVITY, SortOrder(ACTIVITY, ascending=True)):
        expected, after = sort_rows(rows, order), None
        for first in range(0, 40, 8):
            page = await find_runs(storage.pool, RunFilter(), order=order, after=after, limit=8, counts=True)
            assert [row.trace_id for row in page.rows] == expected[first : first + 8]
            assert page.total == RowCount(most, is_exact=most == 40)
            after = page.places[-1]


@pytest.mark.parametrize(
    "place",
    [
        *("", "[]", '["NaN", "1"]', '["soon", "1"]', "[1, 2]"),
        *('["1", "\\u0000"]', '["1E+200000", "1"]', '["\uff11", "1"]', '["1_0", "1"]'),
    ],
)
async def test_a_wrong_place_is_refused(storage: Storage, place: str) -> None:
    with pytest.raises(ValueError, match="not a place in a list"):
        await find_runs(storage.pool, RunFilter(), order=SortOrder("cost"), after=place, limit=1)
