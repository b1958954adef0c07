"""What runs cost: by account, agent, model and day, and for a month."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from agentchat.contracts import events
from agentchat.contracts.ids import make_id
from agentchat.contracts.values import UnfinishedReply, Usage
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.aggregate.run_ends import fail
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.projections import conversations_table, runs_table
from agentchat.conversations.queries.monthly_usage import UsageLine, sum_usage_of_month
from agentchat.conversations.queries.quota_figures import load_account_usage
from agentchat.runtime.prices import Price, Prices
from tests.conversations.read_models import REMOVE_CONTENT, Storage

pytestmark = pytest.mark.usefixtures("empty_database")

ACCOUNT, OTHER = "account-1", "account-2"


def subtract_days(seconds: float) -> str:
    """A time of this month: the first moments of a month have no time before them."""
    now = datetime.now(UTC)
    moment = max(now - timedelta(seconds=seconds), now.replace(day=1, hour=0, minute=0, second=0))
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


MONTH = subtract_days(0)[:7]
USAGE = "SELECT * FROM runs ORDER BY trace_id"


def run(tokens: int, end: str = "completed", *, agent: str = "a", model: str = "m", at: str | None = None):  # type: ignore[no-untyped-def]
    """A run of one round, from its message to its end."""
    trace, at = make_id(), at or subtract_days(0)
    spent = Usage(input_tokens=tokens - 1, output_tokens=1) if tokens else Usage()
    asked = events.MessageSaved(
        trace_id=trace, at=at, message_id=make_id(), role="user", agent_id=agent, content="Hi"
    )
    began = events.RunStarted(trace_id=trace, at=at, attempt=1, agent_version=1, model=model, form="json")
    replied = events.ModelReplied(
        trace_id=trace, at=at, round=1, blocks=(), stop_reason="end_turn", usage=spent
    )
    ends: dict[str, events.Event] = {
        "completed": events.RunCompleted(trace_id=trace, at=at, usage=spent, rounds=1),
        "failed": events.RunFailed(trace_id=trace, at=at, code="provider_error", message="x", usage=spent),
        "cancelled": events.RunCancelled(trace_id=trace, at=at, usage=spent),
    }
    return asked, began, replied, ends[end]


async def append_story(
    store: ConversationStore, *stored: events.Event, account: str = ACCOUNT
) -> Conversation:
    began = events.ConversationStarted(trace_id=make_id(), at=subtract_days(0), account_id=account)
    return await store.append(Conversation(conversation_id=make_id()), [began, *stored])


ONLY = [runs_table.PROJECTION]


async def test_it_is_added_up_by_account_agent_model_and_day(storage: Storage) -> None:
    old = "2020-02-29T23:59:59.000000Z"
    await append_story(
        storage.store, *run(10, at=old), *run(5, "failed", at=old), *run(7, "cancelled", at=old, model="n")
    )
    await append_story(storage.store, *run(20, at=old), account=OTHER)
    await append_story(storage.store, *run(1, at="2020-03-01T00:00:00.000000Z"), *run(9, at=old)[:3])
    await storage.follow(ONLY)
    first = UsageLine(
        account_id=ACCOUNT,
        day="2020-02-29",
        agent_id="a",
        model="m",
        runs=2,
        failed=1,
        cancelled=0,
        rounds=2,
        input_tokens=13,
        output_tokens=2,
        cache_read_tokens=0,
        cache_creation_tokens=0,
        tokens=15,
        cost=0.0,
        unpriced=2,
    )
    second = msgspec.structs.replace(
        first,
        model="n",
        runs=1,
        failed=0,
        cancelled=1,
        rounds=1,
        input_tokens=6,
        output_tokens=1,
        tokens=7,
        unpriced=1,
    )
    second = msgspec.structs.replace(second, unpriced=1)
    assert await sum_usage_of_month(storage.pool, "2020-02", ACCOUNT) == [first, second]
    assert [(line.account_id, line.tokens) for line in await sum_usage_of_month(storage.pool, "2020-02")] == [
        (ACCOUNT, 15),
        (ACCOUNT, 7),
        (OTHER, 20),
    ]
    sums = await sum_usage_of_month(storage.pool, "2020-02", with_lines=False)
    assert [(line.account_id, line.day, line.tokens, line.unpriced) for line in sums] == [
        (ACCOUNT, "", 22, 3),
        (OTHER, "", 20, 1),
    ]
    assert [line.tokens for line in await sum_usage_of_month(storage.pool, "2020-03")] == [1]


async def test_erased_conversation_gives_no_tokens_back(storage: Storage) -> None:
    conversation = await append_story(storage.store, *run(10), *run(5, "failed"))
    other = await append_story(storage.store, *run(3, "cancelled"), *run(7)[:3])
    await storage.follow(ONLY, batch=6, steps=1)  # the first run, and half of the second
    await storage.erase(conversation)
    await storage.follow(ONLY)
    assert (await load_account_usage(storage.pool, ACCOUNT)).month_tokens == 18
    await storage.erase(other)
    await storage.follow(ONLY)
    assert (await load_account_usage(storage.pool, ACCOUNT)).month_tokens == 18
    assert await storage.rows("SELECT conversation_id FROM runs") == [(None,)] * 3


async def test_a_rebuild_keeps_what_runs_of_erased_conversations_cost(storage: Storage) -> None:
    gone, kept = await append_story(storage.store, *run(10)), await append_story(storage.store, *run(3))
    await storage.follow(ONLY)
    await storage.erase(gone)
    await storage.follow(ONLY)
    await storage.rows(REMOVE_CONTENT, gone.conversation_id)
    live = await storage.rows(USAGE)
    await storage.rows("UPDATE runs SET rounds = 9 WHERE conversation_id IS NOT NULL RETURNING 1")
    assert [each.ok for each in await storage.verify(ONLY)] == [False]
    await storage.rebuild(ONLY)
    assert await storage.rows(USAGE) == live
    assert [each.ok for each in await storage.verify(ONLY)] == [True]
    assert kept.version == 5


SUMS = """
SELECT agent_id, runs, failed, cancelled, rounds, milliseconds, input_tokens, output_tokens
  FROM usage_by_day ORDER BY 1
"""


@pytest.mark.parametrize("batch", [1, 100])
async def test_sums_count_each_run_once(storage: Storage, batch: int) -> None:
    old = "2020-02-29T23:59:59.000000Z"
    await append_story(
        storage.store, *run(10, at=old), *run(5, "failed", at=old), *run(7, "cancelled", at=old)
    )
    began, *rest = run(20, agent="b", at=old)
    first, *end = rest[0], msgspec.structs.replace(rest[-1], at="2020-03-01T00:00:01.500000Z")
    await append_story(storage.store, began, first, *run(9, agent="b", at=old)[:3], *end)
    await storage.follow(ONLY, batch=batch)
    assert await storage.rows(SUMS) == [("a", 3, 1, 1, 3, 0, 19, 3), ("b", 1, 0, 0, 1, 2500, 19, 1)]


@pytest.mark.parametrize("batch", [1, 100])
async def test_what_follows_an_end_adds_no_tokens_to_the_run(storage: Storage, batch: int) -> None:
    ended = run(10)
    await append_story(storage.store, *ended, msgspec.structs.replace(run(5)[2], trace_id=ended[0].trace_id))
    await storage.follow(ONLY, batch=batch)
    assert await storage.rows("SELECT input_tokens, output_tokens FROM runs") == [(9, 1)]


async def test_a_fork_counts_the_tokens_of_its_own_runs(storage: Storage) -> None:
    copies = [msgspec.structs.replace(event, inherited_from=make_id()) for event in run(10)]
    await append_story(storage.store, *copies, *run(7))
    await storage.follow()
    assert await storage.rows("SELECT tokens FROM conversations") == [(7,)]


async def test_rebuild_and_verify_include_the_sums(storage: Storage) -> None:
    gone = await append_story(storage.store, *run(10))
    await append_story(storage.store, *run(3))
    await storage.follow(ONLY)
    await storage.erase(gone)
    await storage.follow(ONLY)
    sums = await storage.rows(SUMS)
    await storage.rows("UPDATE usage_by_day SET runs = 9 RETURNING 1")
    (found,) = await storage.verify(ONLY)
    assert found.difference is not None
    assert (found.ok, found.difference.table) == (False, "usage_by_day")
    await storage.rebuild(ONLY)
    assert await storage.rows(SUMS) == sums
    assert [each.ok for each in await storage.verify(ONLY)] == [True]


PRICES = Prices(
    models={
        "m": [Price(input=1, output=2), Price(since="2020-03-01", input=3, output=4, cache_read=0.1)],
        "n": Price(input=10, output=0.1, cache_write=12.5),
        "dear": Price(input=1e12, output=0),
    }
)
OLD, NEW = "2020-02-29T23:59:59.000000Z", "2020-03-01T00:00:00.000000Z"
TOKENS = Usage(input_tokens=1_000, output_tokens=100)


def build_priced_run(*middle: events.Event, end: events.RunEnd | None = None) -> tuple[events.Event, ...]:
    """A run of model `m` that asked it once, for 0.0012 by the old prices, with more events."""
    asked, began, replied, ended = run(0, at=OLD)
    trace = asked.trace_id
    replied = msgspec.structs.replace(replied, model="m", usage=TOKENS, first_token_ms=70)
    more = [msgspec.structs.replace(each, trace_id=trace) for each in (*middle, end or ended)]
    return asked, began, replied, *more


AFTER_A_YEAR = 31_536_000_000


def build_slow_run() -> tuple[events.Event, ...]:
    """A run that waited for an approval as long as an agent allows."""
    asked, began, replied, ended = run(0, at=OLD)
    return asked, began, msgspec.structs.replace(replied, first_token_ms=AFTER_A_YEAR), ended


FAILED: dict[str, Any] = {"trace_id": "", "at": OLD, "code": "provider_error", "message": "x"}
LATER_REPLY = msgspec.structs.replace(run(0, at=NEW)[2], model="m", usage=TOKENS, first_token_ms=90)
COSTS: list[tuple[tuple[events.Event, ...], float | None]] = [
    (build_priced_run(), 0.0012),
    (run(0, "failed", model="unknown", at=OLD), 0),
    (build_slow_run(), 0),
    (build_priced_run(LATER_REPLY), 0.0046),
    (build_priced_run(msgspec.structs.replace(LATER_REPLY, model="?")), None),
    (
        build_priced_run(
            msgspec.structs.replace(LATER_REPLY, model="dear", usage=Usage(input_tokens=10**13))
        ),
        1e19,
    ),
    (build_priced_run(events.ReplyLost(trace_id="", at=OLD, round=2, usage=TOKENS, model="n")), 0.01121),
    (
        build_priced_run(
            events.WarningRaised(
                trace_id="",
                at=OLD,
                code="model_changed",
                subject="n",
                message="",
                usage=TOKENS,
                failed_model="m",
            )
        ),
        0.0024,
    ),
    (
        build_priced_run(
            events.ContextCompacted(
                trace_id="",
                at=NEW,
                through_version=1,
                summary="",
                model="m",
                prompt_sha256="",
                usage=Usage(cache_read_tokens=10_000),
            )
        ),
        0.0022,
    ),
    (build_priced_run(end=events.RunFailed(**FAILED, usage=TOKENS)), 0.0012),
    (
        build_priced_run(
            end=events.RunFailed(
                **FAILED, unfinished=UnfinishedReply(model="n", usage=Usage(cache_creation_tokens=100))
            )
        ),
        0.00245,
    ),
    (
        build_priced_run(
            end=events.RunCancelled(
                trace_id="", at=OLD, unfinished=UnfinishedReply(model="m", usage=Usage(cache_read_tokens=1))
            )
        ),
        None,
    ),
]


COSTS_OF_CONVERSATIONS = """
SELECT trace_id, conversations.cost::float8 FROM conversations JOIN runs USING (conversation_id)
"""


@pytest.mark.parametrize("batch", [1, 2, 100])
async def test_a_run_costs_what_its_model_calls_cost(storage: Storage, batch: int) -> None:
    priced = [runs_table.build_projection(PRICES), conversations_table.build_projection(PRICES)]
    for story, _ in COSTS:
        await append_story(storage.store, *story)
    await storage.follow(priced, batch=batch)
    kept = dict(await storage.rows("SELECT trace_id, cost::float8 FROM runs"))
    assert [kept[story[0].trace_id] for story, _ in COSTS] == [cost for _, cost in COSTS]
    assert dict(await storage.rows(COSTS_OF_CONVERSATIONS)) == kept
    assert set(await storage.rows("SELECT first_token_ms FROM runs")) == {(70,), (None,), (AFTER_A_YEAR,)}
    known = [cost for _, cost in COSTS if cost is not None]
    sums = await storage.rows("SELECT sum(cost)::float8, sum(unpriced)::int FROM usage_by_day")
    assert sums == [(pytest.approx(sum(known)), len(COSTS) - len(known))]
    assert [each.ok for each in await storage.verify(priced)] == [True, True]
    await storage.rebuild(ONLY)
    assert await storage.rows("SELECT count(cost) FROM runs") == [(2,)]


@pytest.mark.parametrize("batch", [1, 2, 3, 4])
async def test_a_run_of_two_attempts_lasts_from_the_first(storage: Storage, batch: int) -> None:
    asked, began, replied, ended = run(10, at="2026-11-28T10:00:00.000000Z")
    again = msgspec.structs.replace(began, attempt=2, at="2026-11-28T10:00:03.000000Z")
    ended = msgspec.structs.replace(ended, at="2026-11-28T10:00:05.000000Z")
    await append_story(storage.store, asked, began, again, replied, ended)
    await storage.follow(ONLY, batch=batch)
    assert await storage.rows("SELECT duration_ms FROM runs") == [(5000,)]
    assert [each.ok for each in await storage.verify(ONLY)] == [True]


async def test_the_run_pays_for_a_lost_reply(storage: Storage) -> None:
    asked, began, replied, _ = run(10)
    lost = events.ReplyLost(
        trace_id=asked.trace_id, at=subtract_days(0), round=1, usage=Usage(input_tokens=5, output_tokens=2)
    )
    conversation = await append_story(storage.store, asked, began, lost, replied)
    (ended,) = fail(conversation.runs[0], "provider_error", "It broke.", subtract_days(0))
    assert await storage.store.append(conversation, [ended])
    assert await storage.log.load_conversation(conversation.conversation_id) == await storage.store.load(
        conversation.conversation_id
    )
    await storage.follow(ONLY)
    assert (await load_account_usage(storage.pool, ACCOUNT)).month_tokens == 10 + 7
