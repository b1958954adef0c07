"""What a process has loaded of an account's conversations at a time is bounded."""

import asyncio

import pytest

from conversations.errors import TooMuchLoaded
from conversations.event_store import load_budget
from conversations.event_store.load_budget import LoadBudget
from conversations.event_store.log import open_log
from conversations.event_store.store import ConversationStore, open_store
from tests.conversations.given import asked, began, described, failed, started, trace, turn
from tests.conversations.read_models import Storage
from tests.conversations.test_store import new_conversation
from tests.support.proxy import proxied


@pytest.fixture
def _two_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_budget, "ACCOUNT_BYTES", 50_000)


async def threads(store: ConversationStore, count: int, length: int = 20_000) -> list[str]:
    """Conversations that take a little more than `length` each."""
    facts = [began(), *turn("a", "x" * length, "Hi")]
    return [(await store.append(new_conversation(), facts)).conversation_id for _ in range(count)]


@pytest.mark.usefixtures("_two_at_a_time")
async def test_a_load_waits_for_the_others_of_its_account_and_for_no_other_account(storage: Storage) -> None:
    first, second, third = await threads(storage.store, 3)
    budget = LoadBudget()
    with budget.loading_for("a"):
        await storage.log.conversation(first)
        with budget.loading_for("a"):
            for _ in range(3):  # it counts once
                await storage.log.conversation(second)
            with budget.loading_for("a"), pytest.raises(TooMuchLoaded):
                await storage.log.conversation(third)
            with budget.loading_for("b"):
                await storage.log.conversation(third)
        with budget.loading_for("a"):
            await asyncio.gather(storage.log.conversation(third))  # in a task of its own
            with budget.loading_for("a"), pytest.raises(TooMuchLoaded):
                await storage.log.conversation(second)
    await storage.log.conversation(second)


@pytest.mark.usefixtures("_two_at_a_time")
async def test_one_is_loaded_however_long_it_is(storage: Storage) -> None:
    (long,) = await threads(storage.store, 1, 100_000)
    (short,) = await threads(storage.store, 1, 100)
    budget = LoadBudget()
    with budget.loading_for("a"):
        await storage.log.conversation(long)
        with budget.loading_for("a"), pytest.raises(TooMuchLoaded):
            await storage.log.conversation(short)


@pytest.mark.usefixtures("_two_at_a_time")
async def test_a_load_stops_at_the_page_that_is_too_much(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conversations.event_store.log.PAGE_ENTRIES", 10)
    (first,) = await threads(storage.store, 1, 40_000)
    (second,) = await threads(storage.store, 1, 100)
    await storage.store.append(await storage.store.load(second), described(1000))
    budget = LoadBudget()
    async with proxied(storage.url) as (proxy, url), open_log(url) as counted:
        with budget.loading_for("a"):
            await storage.log.conversation(first)
            with budget.loading_for("a"), pytest.raises(TooMuchLoaded):
                await counted.conversation(second)
        assert 0 < proxy.received < 50_000


@pytest.mark.usefixtures("_two_at_a_time")
async def test_what_is_known_here_counts_and_what_was_loaded_may_grow(storage: Storage) -> None:
    first, second, third = await threads(storage.store, 3)
    budget = LoadBudget()
    with budget.loading_for("a"):
        assert storage.store.known(first) is not None
        with budget.loading_for("a"):
            loaded = await storage.store.load(second)
            with budget.loading_for("a"), pytest.raises(TooMuchLoaded):
                storage.store.known(third)
            grown = await storage.store.append(loaded, [asked("b", "z" * 30_000), started("b")])
            async with open_store(storage.url) as other:
                await other.append(grown, [failed("b")])
            assert (await storage.store.load(second)).run(trace("b")) is not None
