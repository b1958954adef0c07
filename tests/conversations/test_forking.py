"""The rules of a fork: which past it has, that no id is its source's, and that nothing counts twice."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from agentchat.contracts import events
from agentchat.contracts.messages import ForkAnswered, ForkConversation
from agentchat.conversations.aggregate import forking
from agentchat.conversations.aggregate.conversation import Conversation, ForkedFrom, fold
from agentchat.conversations.aggregate.history import build_prompt
from agentchat.conversations.event_store import mapper
from agentchat.conversations.projections.conversations_table import (
    ConversationFilter,
    list_account_conversations,
)
from agentchat.conversations.queries import threads
from tests.conversations.given import (
    ACCOUNT,
    AT,
    ERASED,
    LATER,
    answered,
    asked,
    began,
    cancelled,
    failed,
    handed_over,
    returned,
    said,
    started,
    trace,
    turn,
    use,
    wanted,
)
from tests.conversations.read_models import Storage, empty

NOW = "2026-11-22T08:00:00.000000Z"
FORK = "01a2068f-2ae5-793c-9769-b645990fb9bd"
SOURCE = "01a2068f-2ae5-793c-9769-b645990fb9ba"
REPLY = "0192f0c1-7d11-7aaa-8bbb-0000000000d2"
QUESTION = "0192f0c1-7d11-7aaa-8bbb-0000000000d3"

_REPLIED, _COMPLETED = answered("First.", "a")
PAST: tuple[events.Event, ...] = (
    began(),
    asked("a", "One"),
    started("a", shown_sha256="5" * 64),
    *wanted([use("call-1")], "a"),
    handed_over("a", 7),
    started("a", 2),
    returned("call-1", word="a"),
    *said("First.", "a", 2),
    msgspec.structs.replace(_REPLIED, message_id=REPLY),
    _COMPLETED,
    events.ConversationDescribed(trace_id=trace("d"), at=LATER, title="Title", metadata={"k": "v"}),
    msgspec.structs.replace(asked("b", "Two"), message_id=QUESTION),
    started("b"),
    failed("b"),
    *turn("c", "Three", "Third."),
)
FIRST, SECOND = 13, 16
"""The versions before the second run, which is behind a description, and after it."""


def command(at: int | str | None = None, **more: Any) -> ForkConversation:
    fields = {"account_id": ACCOUNT, "conversation_id": FORK, "source_id": SOURCE} | more
    return ForkConversation(trace_id=trace("fork"), at=at, **fields)


def decided(
    at: int | str | None = None, source: Sequence[events.Event] = PAST, **more: Any
) -> tuple[events.Event, ...] | ForkAnswered:
    sizes = [len(mapper.encode_state(each)) for each in source]
    return forking.fork(source, sizes, command(at, **more), NOW)


def forked(at: int | str | None = None, source: Sequence[events.Event] = PAST) -> tuple[events.Event, ...]:
    found = decided(at, source)
    assert not isinstance(found, ForkAnswered)
    return found


def texts(stored: Sequence[events.Event]) -> list[str]:
    return [event.content for event in stored if isinstance(event, events.MessageSaved)]


def began_of(version: int) -> events.ConversationForked:
    return events.ConversationForked(trace_id=trace("fork"), at=NOW, source_id=SOURCE, source_version=version)


def test_a_fork_begins_with_where_it_is_from_and_shows_the_model_the_same() -> None:
    stored = forked()
    start = events.ConversationStarted(trace_id=trace("fork"), at=NOW, account_id=ACCOUNT)
    assert stored[:2] == (start, began_of(len(PAST)))
    source, fork = fold(SOURCE, PAST), fold(FORK, stored)
    assert fork.forked_from == ForkedFrom(SOURCE, len(PAST))
    assert (fork.title, fork.metadata) == ("Title", {"k": "v"})
    assert fork.active is None

    def shown(conversation: Conversation) -> list[dict[str, Any]]:
        return build_prompt(conversation, conversation.runs[-1].trace_id, tools_offered=True).messages

    assert shown(fork) == shown(source)
    assert [run.state for run in fork.runs] == [run.state for run in source.runs]


def test_no_id_is_its_sources_and_each_event_says_of_what_it_is_a_copy() -> None:
    copies = forked()[2:]
    originals = [each for each in PAST[1:] if not isinstance(each, events.ReplyLost)]
    assert [each.inherited_from for each in copies] == [each.trace_id for each in originals]
    assert [each.at for each in copies] == [each.at for each in originals]
    source, fork = fold(SOURCE, PAST), fold(FORK, forked())
    for mine, theirs in zip(fork.runs, source.runs, strict=True):
        assert mine.trace_id != theirs.trace_id
        assert mine.user_message_id != theirs.user_message_id
        assert mine.shown_sha256 is None
        assert mine.inherited
        if mine.reply is not None and theirs.reply is not None:
            assert mine.reply.id != theirs.reply.id
            assert mine.reply.conversation_id == FORK
    other = forking.fork(PAST, [0] * len(PAST), command(conversation_id=SOURCE[:-1] + "0"), NOW)
    assert not isinstance(other, ForkAnswered)
    assert {each.trace_id for each in other[2:]}.isdisjoint(each.trace_id for each in copies)
    assert forked() == forked()


@pytest.mark.parametrize(
    ("at", "version"),
    [
        (None, len(PAST)),
        (REPLY, FIRST - 1),
        (QUESTION, FIRST),
        (FIRST, FIRST),
        (SECOND, SECOND),
        (SECOND - 1, FIRST),
        (len(PAST) - 1, SECOND),
        (LATER, len(PAST)),
    ],
)
def test_it_ends_at_its_place_or_before_the_run_that_is_there(at: int | str | None, version: int) -> None:
    found = forked(at)
    assert found[1] == began_of(version)
    assert texts(found) == texts(PAST[:version])


def test_a_run_under_way_is_left_out_where_a_place_before_it_is_named() -> None:
    running = (*PAST, asked("r", "Four"), started("r"))
    assert decided(source=running) == ForkAnswered(outcome="busy", version=len(running))
    assert texts(forked(len(running), running)) == texts(PAST)
    assert texts(forked(REPLY, running)) == ["One", "First."]
    done = (*running, cancelled("r"))
    assert texts(forked(source=done)) == [*texts(PAST), "Four"]


def test_what_cannot_be_forked_says_why() -> None:
    assert decided(len(PAST) + 1) == ForkAnswered(outcome="unknown_version", version=len(PAST))
    unknown = "0192f0c1-7d11-7aaa-8bbb-0000000000ff"
    assert decided(unknown) == ForkAnswered(outcome="unknown_message", version=len(PAST))
    for at in (0, 1, AT):
        assert decided(at) == ForkAnswered(outcome="nothing_said")
    not_found = ForkAnswered(outcome="not_found")
    assert decided(source=()) == decided(source=(ERASED,)) == decided(account_id="another") == not_found


def test_what_is_too_large_is_refused() -> None:
    sizes = [0] * len(PAST)
    sizes[FIRST + 1] = forking.MAX_BYTES + 1
    assert forking.fork(PAST, sizes, command(), NOW) == ForkAnswered(outcome="too_large")
    assert not isinstance(forking.fork(PAST, sizes, command(FIRST), NOW), ForkAnswered)
    many = (*PAST, *(PAST[FIRST - 1] for _ in range(forking.MAX_EVENTS)))
    assert decided(source=many) == ForkAnswered(outcome="too_large")


@pytest.mark.parametrize(
    ("at", "version"),
    [
        (None, None),
        (len(PAST), len(PAST)),
        (len(PAST) + 1, None),
        (LATER, None),
        ("0192f0c1-7d11-7aaa-8bbb-0000000000ff", None),
        (REPLY, FIRST - 1),
        (QUESTION, FIRST),
        (FIRST, FIRST),
    ],
)
def test_of_a_source_that_was_not_read_to_its_end_a_place_in_what_was_read_is_forked(
    at: int | str | None, version: int | None
) -> None:
    found = forking.fork(PAST, [0] * len(PAST), command(at), NOW, is_whole=False)
    if version is None:
        assert found == ForkAnswered(outcome="too_large")
    else:
        assert not isinstance(found, ForkAnswered)
        assert found[1] == began_of(version)


def test_a_reply_whose_end_was_not_read_is_beyond_what_may_be_copied() -> None:
    read = PAST[: PAST.index(_COMPLETED)]
    found = forking.fork(read, [0] * len(read), command(REPLY), NOW, is_whole=False)
    assert found == ForkAnswered(outcome="too_large")


def test_a_fork_of_a_fork_is_of_that_and_a_repeat_has_the_same_answer() -> None:
    first = forked()
    second = forking.fork(first, [0] * len(first), command(conversation_id=SOURCE, source_id=FORK), NOW)
    assert not isinstance(second, ForkAnswered)
    assert fold(SOURCE, second).forked_from == ForkedFrom(FORK, len(first))
    assert texts(second) == texts(PAST)
    assert [each.inherited_from for each in second[2:]] == [each.trace_id for each in first[2:]]
    assert forking.find_answer((), command()) is None
    gone_on = (*first, *turn("later", "More", "Yes"))
    answer = ForkAnswered(outcome="forked", version=len(first))
    assert forking.find_answer(gone_on, command()) == answer
    another = command(account_id="another")
    assert forking.find_answer(gone_on, another) == ForkAnswered(outcome="not_found")


async def test_read_models_have_its_messages_and_no_runs_of_it(storage: Storage) -> None:
    await empty(storage.url)
    source = await storage.store.append(Conversation(conversation_id=SOURCE), PAST)
    fork = await storage.store.append(Conversation(conversation_id=FORK), forked())
    await storage.follow()
    listed = {
        row.conversation_id: row for row in await list_account_conversations(storage.pool, ACCOUNT, limit=10)
    }
    assert listed[FORK].forked_from == ForkedFrom(SOURCE, len(PAST))
    assert listed[FORK].message_count == listed[SOURCE].message_count == 5
    assert (listed[FORK].title, listed[FORK].metadata) == ("Title", {"k": "v"})
    forks = await list_account_conversations(
        storage.pool, ACCOUNT, limit=9, matching=ConversationFilter(source_id=SOURCE)
    )
    assert [row.conversation_id for row in forks] == [FORK]
    assert await storage.rows("SELECT count(*) FROM messages") == [(10,)]
    for table in ("runs", "tools"):
        found = await storage.rows(f"SELECT DISTINCT conversation_id FROM {table}")
        assert found in ([], [(SOURCE,)])
    summary = await threads.load_summary(storage.pool, FORK, fork.version)
    assert summary is not None
    assert summary.forked is not None
    assert (summary.forked.source_id, summary.count) == (SOURCE, 5)

    await storage.store.append(source, [ERASED])
    await storage.follow()
    again = await storage.store.load(FORK)
    assert again.runs == fork.runs
    page = await threads.list_messages(
        storage.pool, FORK, after=0, until=again.version, limit=9, max_bytes=10**6
    )
    assert [each.message.content for each in page.messages] == texts(PAST)
    assert await storage.rows("SELECT count(*) FROM messages") == [(5,)]
