"""Feedback on replies: its rules, the read model of it, and what is found by it."""

from typing import Any

import pytest
from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.contracts.messages import FeedbackAnswered, GiveFeedback
from agentchat.contracts.values import MAX_FEEDBACK, Decider
from agentchat.conversations.aggregate.conversation import MAX_EVENTS, Conversation, evolve
from agentchat.conversations.aggregate.feedback_rules import give_feedback
from agentchat.conversations.queries.conversation_filters import (
    ConversationFilter,
    list_account_conversations,
)
from agentchat.conversations.queries.conversation_search import ConversationSearch, find_conversations
from agentchat.conversations.queries.find_feedback import find_feedback
from agentchat.conversations.queries.find_runs import RunFilter, find_runs
from agentchat.conversations.queries.sample_conversations import RunSelection, sample_conversations
from agentchat.conversations.user_deletion_requests import (
    UserDeletion,
    finish_user_deletion,
    list_feedback_of_user,
    request_user_deletion,
)
from agentchat.runtime.postgres import acquire_connection
from tests.conversations.given import ACCOUNT, ERASED, LATER, begin, build_feedback, build_thread, trace, turn
from tests.conversations.read_models import Storage

KEY = Decider(kind="account", id="key-1")
TURN = turn("a", "Where is it?", "At sea.")


def build_command(score: float | None = -1.0, name: str | None = None, **changes: Any) -> GiveFeedback:
    fields: dict[str, Any] = {
        "trace_id": trace("a"),
        "account_id": ACCOUNT,
        "conversation_id": "conversation-1",
        "message_id": "reply-a",
        "by": KEY,
    }
    return GiveFeedback(**fields | changes, score=score, on_behalf_of=name)


def build_withdrawal(name: str | None = None, word: str = "a") -> events.FeedbackWithdrawn:
    whose: dict[str, Any] = {"trace_id": trace(word), "message_id": f"reply-{word}", "by": KEY}
    return events.FeedbackWithdrawn(**whose, at=LATER, on_behalf_of=name)


def obey(conversation: Conversation, *commands: GiveFeedback) -> Conversation:
    for each in commands:
        event = give_feedback(conversation, each, LATER)
        assert not isinstance(event, FeedbackAnswered), event
        conversation = evolve(conversation, event)
    return conversation


def test_one_a_name_counts_and_the_newest_is_last() -> None:
    there = build_thread(*TURN)
    found = obey(
        there, build_command(-1), build_command(1, "ada"), build_command(0.5, label="ok", comment="Fine.")
    )
    (run,) = found.runs
    assert [(each.on_behalf_of, each.score, each.comment) for each in run.feedback] == [
        ("ada", 1, None),
        (None, 0.5, "Fine."),
    ]
    assert run.rating == 0.75
    left = obey(found, build_command(None, "ada"))
    assert left.runs[0].rating == 0.5
    assert obey(left, build_command(None)).runs[0].rating is None


def test_a_change_without_effect_is_no_event() -> None:
    there = obey(build_thread(*TURN), build_command(-1, label="wrong"))
    same = FeedbackAnswered(outcome="recorded", version=there.version)
    assert give_feedback(there, build_command(-1, label="wrong", by=replace(KEY, id="key-2")), LATER) == same
    assert give_feedback(there, build_command(None, "nobody"), LATER) == same
    assert not isinstance(give_feedback(there, build_command(-1), LATER), FeedbackAnswered), (
        "the label is gone"
    )


@pytest.mark.parametrize(
    ("conversation", "changes"),
    [
        (build_thread(*TURN), {"message_id": "user-a"}),
        (build_thread(*TURN), {"trace_id": trace("b")}),
        (build_thread(*TURN), {"account_id": "another"}),
        (build_thread(*begin()), {}),
        (evolve(build_thread(*TURN), ERASED), {}),
        (Conversation(conversation_id="conversation-1"), {}),
    ],
    ids=["a user's message", "another run's", "another account's", "no reply yet", "erased", "unknown"],
)
def test_only_a_reply_of_the_account_is_found(conversation: Conversation, changes: dict[str, str]) -> None:
    for score in (-1.0, None):
        assert give_feedback(conversation, build_command(score, **changes), LATER) == FeedbackAnswered(
            outcome="not_found"
        )


def test_a_full_conversation_and_a_hundred_names_take_no_more() -> None:
    there = obey(build_thread(*TURN), *(build_command(1, str(number)) for number in range(MAX_FEEDBACK)))
    assert give_feedback(there, build_command(1, "one more"), LATER) == FeedbackAnswered(outcome="too_many")
    assert isinstance(give_feedback(there, build_command(0, "7"), LATER), events.FeedbackGiven), (
        "known names go on"
    )
    full = replace(there, version=MAX_EVENTS)
    assert give_feedback(full, build_command(0, "7"), LATER) == FeedbackAnswered(outcome="full")
    assert isinstance(give_feedback(full, build_command(None, "7"), LATER), events.FeedbackWithdrawn)


async def append_told(storage: Storage, word: str, *more: events.Event) -> str:
    stored = await storage.add(*turn(word, "Where is it?", "At sea."), *more)
    await storage.follow()
    return stored.conversation_id


@pytest.mark.usefixtures("empty_database")
async def test_conversations_and_runs_are_found_by_their_rating(storage: Storage) -> None:
    bad = await append_told(storage, "a", build_feedback(-1, word="a"), build_feedback(0.5, "ada", word="a"))
    good = await append_told(storage, "b", build_feedback(-1, word="b"), build_feedback(1, word="b"))
    taken_back = await append_told(storage, "c", build_feedback(-1, word="c"), build_withdrawal(word="c"))
    never = await append_told(storage, "d")

    async def list_rated(rating: Any) -> list[str]:
        rows = await list_account_conversations(
            storage.pool, ACCOUNT, limit=9, matching=ConversationFilter(rating=rating)
        )
        wanted = ConversationSearch(rating=rating)
        assert [each.id for each in (await find_conversations(storage.pool, wanted, limit=9)).rows] == [
            each.conversation_id for each in rows
        ]
        found = await find_runs(storage.pool, RunFilter(rating=rating), limit=9)
        assert {run.conversation_id for run in found.rows} == {each.conversation_id for each in rows}
        return [each.conversation_id for each in rows]

    async def sample_ids(worst: float, best: float) -> set[str]:
        wanted = RunSelection(rating=(worst, best))
        found = set(await sample_conversations(storage.pool, ACCOUNT, wanted, 9, 1))
        loaded = [await storage.log.load_conversation(each) for each in (bad, good, taken_back)]
        taken = {each.conversation_id for each in loaded if wanted.matches(each.runs[0])}
        assert taken == found, "the read model and the log agree"
        return found

    assert (await list_rated("bad"), await list_rated("good")) == ([bad], [good])
    assert await sample_ids(-1, -0.3) == set()
    assert await sample_ids(-1, -0.25) == {bad}
    assert await sample_ids(-0.25, 1) == {bad, good}
    assert await sample_ids(0, 1) == {good}
    rows = await storage.rows("SELECT message_id, on_behalf_of, score FROM feedback ORDER BY 1, 2")
    assert rows == [("reply-a", "", -1.0), ("reply-a", "ada", 0.5), ("reply-b", "", 1.0)]
    listed = (await find_conversations(storage.pool, ConversationSearch(), limit=9)).rows
    assert {each.id: each.rating for each in listed} == {bad: -0.25, good: 1.0, taken_back: None, never: None}
    await storage.erase(await storage.store.load(bad))
    await storage.follow()
    assert await list_rated("bad") == []
    gone = await storage.rows("SELECT scores, rating FROM runs WHERE conversation_id IS NULL")
    assert gone == [(None, None)], "a run outlives its conversation without its feedback"
    assert all(each.ok for each in await storage.verify())


@pytest.mark.usefixtures("empty_database")
async def test_scores_of_a_deleted_user_leave_the_ratings(storage: Storage) -> None:
    await append_told(storage, "a", build_feedback(1, "ada", "a"), build_feedback(-1, "bob", "a"))
    await append_told(storage, "b", build_feedback(1, "ada", "b"))
    await append_told(
        storage,
        "c",
        build_feedback(1, "ada", "c"),
        build_feedback(-1, "bob", "c"),
        build_withdrawal("bob", "c"),
    )
    await append_told(storage, "d", build_feedback(-1, "bob", "d"), build_withdrawal("bob", "d"))
    ada = UserDeletion(ACCOUNT, "ada")
    await request_user_deletion(storage.pool, ACCOUNT, "ada")
    feedback = await list_feedback_of_user(storage.pool, ada)
    async with acquire_connection(storage.pool) as conn, conn.transaction():
        await finish_user_deletion(conn, ada, feedback)
    rated = await storage.rows("SELECT scores, rating FROM runs")
    assert sorted(rated, key=str) == [(None, None)] * 3 + [({"bob": -1}, -1)]
    of_all = await storage.rows("SELECT scores::text FROM conversations ORDER BY length(scores::text)")
    assert [("ada" in scores, "bob" in scores) for (scores,) in of_all] == [(False, False)] * 3 + [
        (False, True)
    ]
    assert [each for each in await storage.verify() if not each.ok] == []


@pytest.mark.usefixtures("empty_database")
async def test_the_log_has_what_is_given_at_once_and_as_it_was(storage: Storage) -> None:
    stored = await storage.add(
        *TURN, build_feedback(-1), build_feedback(1, "ada"), build_feedback(0, comment="Hm.")
    )
    at = stored.version

    async def scores(until: int) -> list[float]:
        found = await find_feedback(storage.pool, stored.conversation_id, ["reply-a", "reply-b"], until)
        return [each.score for each in found["reply-a"].newest] if found else []

    assert await scores(at) == [0, 1]
    assert await scores(at - 1) == [1, -1]
    assert await scores(at - 3) == []
    one = await find_feedback(storage.pool, stored.conversation_id, ["reply-a"], at, most=1)
    assert (one["reply-a"].count, one["reply-a"].mean_score, len(one["reply-a"].newest)) == (2, 0.5, 1)
    await storage.store.append(await storage.store.load(stored.conversation_id), [build_withdrawal()])
    assert await scores(at + 1) == [1]
    await storage.erase(await storage.store.load(stored.conversation_id))
    assert await scores(at + 1) == []
