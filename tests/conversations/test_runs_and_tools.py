"""The read models of runs and of tool calls, and that every read model comes out the same when rebuilt."""

import random

import pytest
from msgspec.structs import replace

from agentchat.contracts.events import Event, FeedbackWithdrawn
from agentchat.contracts.examples import FILE
from agentchat.contracts.ids import make_id
from agentchat.contracts.values import Usage
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.projections.read_model_follower import Follower
from agentchat.conversations.projections.read_models import PROJECTIONS
from agentchat.conversations.queries.conversation_search import ConversationSearch, find_conversations
from agentchat.conversations.queries.find_runs import RunFilter, find_runs
from agentchat.conversations.queries.user_summaries import list_users
from tests.conversations.given import (
    ACCOUNT,
    AT,
    LATER,
    begin,
    build_answer,
    build_conversation_started,
    build_delta,
    build_feedback,
    build_held_call,
    build_run_cancelled,
    build_run_failed,
    build_run_started,
    build_tool_called,
    build_tool_returned,
    build_user_message,
    trace,
    use,
)
from tests.conversations.read_models import Storage

pytestmark = pytest.mark.usefixtures("empty_database")


async def test_a_run_says_who_answered_when_and_at_what_cost(storage: Storage) -> None:
    blocks = [use("one"), use("two", "cancel_order")]
    whole = (
        *begin(),
        *build_tool_called(blocks, "a"),
        build_tool_returned("one", word="a"),
        build_tool_returned("two", word="a"),
    )
    thread = await storage.add(
        *whole, build_run_started("a", 2), *build_delta("Done", "a", 2), *build_answer("Done", "a")
    )
    await storage.store.append(thread, [*begin("b", agent_version=4), build_run_failed("b")])
    await storage.add(*begin("c"), build_run_cancelled("c"))
    await storage.add(build_user_message("d"))
    await storage.follow()
    columns = (
        "state, code, agent_id, agent_version, model, form, attempts, rounds, tool_calls, input_tokens,"
        " duration_ms, requested_at, started_at, ended_at"
    )
    first = ("agent-1", 3, "demo-shop-1", "form1")
    assert await storage.rows(f"SELECT {columns} FROM runs ORDER BY trace_id") == [
        ("completed", None, *first, 2, 2, 2, 15, 60_000, AT, AT, LATER),
        ("failed", "provider_error", "agent-1", 4, "demo-shop-1", "form1", 1, 0, 0, 0, 60_000, AT, AT, LATER),
        ("cancelled", "cancelled", *first, 1, 0, 0, 0, 60_000, AT, AT, LATER),
        ("running", None, "agent-1", None, None, None, 0, 0, 0, 0, None, AT, None, None),
    ]


async def test_open_run_has_its_tokens_so_far(storage: Storage) -> None:
    begun = replace(build_conversation_started(), user_id="ada")
    calling = (begun, *begin(), *build_tool_called([use("one")]))
    thread = await storage.store.append(Conversation(conversation_id=make_id()), calling)
    await storage.follow()
    counted = "SELECT state, input_tokens, output_tokens FROM runs"
    assert await storage.rows(counted) == [("running", 10, 5)]
    returned = build_tool_returned("one")
    thread = await storage.store.append(thread, [returned, *build_tool_called([use("two")], number=2)])
    await storage.follow()
    assert await storage.rows(counted) == [("running", 20, 10)]
    (user,) = [user for _, user in await list_users(storage.pool, ACCOUNT, limit=5)]
    assert (user.tokens, user.cost) == (0, 0.0), "as the month's sums, which have runs that have ended"
    await storage.store.append(thread, [build_tool_returned("two"), *build_answer("Done")])
    await storage.follow()
    assert await storage.rows(counted) == [("completed", 15, 0)], "what its end says"
    (user,) = [user for _, user in await list_users(storage.pool, ACCOUNT, limit=5)]
    assert user.tokens == 15


async def test_run_with_a_pending_approval_is_waiting(storage: Storage) -> None:
    *asked, decision = build_held_call()
    thread = await storage.add(*begin(), *asked)
    await storage.add(*begin("b"))
    await storage.follow()
    wanted = RunFilter(is_waiting=True)
    (run,) = (await find_runs(storage.pool, wanted, limit=5)).rows
    assert (run.trace_id, run.state, run.is_waiting) == (trace("a"), "running", True)
    found = await find_conversations(storage.pool, ConversationSearch(), limit=5)
    assert {each.id for each in found.rows if each.is_waiting} == {thread.conversation_id}
    await storage.store.append(thread, [decision])
    await storage.follow()
    assert not (await find_runs(storage.pool, wanted, limit=5)).rows


async def test_each_call_of_a_tool_has_its_outcome(storage: Storage) -> None:
    results = [
        replace(build_tool_returned(f"call-{number}", word="a"), ms=number * 10, is_error=number == 1)
        for number in range(2)
    ]
    blocks = [use("call-0"), use("call-1"), use("other", "cancel_order")]
    await storage.add(*begin(), *build_tool_called(blocks, "a"), *results)
    await storage.follow()
    columns = "call_id, account_id, name, called_at, is_error, ms"
    assert await storage.rows(f"SELECT {columns} FROM tools ORDER BY call_id") == [
        ("call-0", ACCOUNT, "get_order", AT, False, 0),
        ("call-1", ACCOUNT, "get_order", AT, True, 10),
        ("other", ACCOUNT, "cancel_order", AT, None, None),
    ]


SUMMED_OTHERWISE = """
SELECT 'run', trace_id FROM runs
 WHERE rating IS DISTINCT FROM (SELECT avg(score) FROM feedback WHERE feedback.trace_id = runs.trace_id)
UNION ALL
SELECT 'conversation', conversation_id
  FROM conversations AS c, LATERAL (
       SELECT coalesce(sum(input_tokens + output_tokens + cache_read_tokens + cache_creation_tokens), 0)
                  AS tokens,
              CASE WHEN count(cost) = count(*) THEN coalesce(sum(cost), 0) END AS cost
         FROM runs WHERE runs.conversation_id = c.conversation_id) AS own
 WHERE (c.tokens, c.cost) IS DISTINCT FROM (own.tokens, own.cost)
"""
"""The runs and conversations whose rating or sums are not those of the feedback and of the runs."""


def build_story(word: str, dice: random.Random) -> list[Event]:
    """A run of any kind, cut off anywhere."""
    whole = [*begin(word, attachments=(FILE,)), *build_held_call(word, f"{word}-call")]
    whole += [build_tool_returned(f"{word}-call", word=word), *build_delta("Done", word, 2)]
    reply, completed = build_answer("Done", word)
    rated = [build_feedback(dice.choice((-1, 0.5, 1)), dice.choice("ab"), word=word) for _ in range(3)]
    given = rated[0]
    withdrawn = FeedbackWithdrawn(
        trace_id=given.trace_id, at=LATER, message_id=given.message_id, by=given.by, on_behalf_of="a"
    )
    used = Usage(input_tokens=20, output_tokens=10)
    done: tuple[Event, ...] = (reply, replace(completed, rounds=2, usage=used), *rated, withdrawn)
    ends = (replace(end, usage=used) for end in (build_run_failed(word), build_run_cancelled(word)))
    events = [*whole, *dice.choice([done, *((end,) for end in ends)])]
    return events[: dice.randint(1, len(events) + 4)]


@pytest.mark.parametrize("seed", [4, 5])  # in the end each read model has rows
async def test_built_again_equals_live_whatever_was_erased_meanwhile(storage: Storage, seed: int) -> None:
    """Live, a conversation's events are seen before they go, half of them, or not at all."""
    dice = random.Random(seed)
    live = Follower(storage.pool, storage.log, PROJECTIONS, batch=dice.choice((1, 5, 500)))
    threads = [await storage.add() for _ in range(5)]
    for number in range(25):
        place = dice.randrange(len(threads))
        thread = threads[place]
        if dice.random() < 0.2:
            await storage.erase(thread)
            threads[place] = await storage.add()
        else:
            threads[place] = await storage.store.append(thread, build_story(f"w{number}", dice))
        for _ in range(dice.choice((0, 0, 1, 3))):
            await live.step()
    while await live.step():
        pass
    assert await storage.rows(SUMMED_OTHERWISE) == []
    expected = await storage.contents()
    assert all(expected.values())
    for size in (3, 500):
        await storage.rebuild(PROJECTIONS, batch=size)
        assert await storage.contents() == expected
