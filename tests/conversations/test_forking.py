"""The rules of a fork: which past it has, that no id is its source's, and that nothing counts twice."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from agentchat.contracts import events
from agentchat.contracts.messages import ForkAnswered, ForkConversation
from agentchat.conversations.aggregate import forking
from agentchat.conversations.aggregate.conversation import Conversation, ForkedFrom, fold
from agentchat.conversations.aggregate.model_messages import build_prompt
from agentchat.conversations.event_store import mapper
from agentchat.conversations.queries import read_thread
from agentchat.conversations.queries.conversation_filters import (
    ConversationFilter,
    list_account_conversations,
)
from tests.conversations.given import (
    ACCOUNT,
    AT,
    ERASED,
    LATER,
    begin,
    build_answer,
    build_conversation_started,
    build_delta,
    build_handed_over,
    build_run_cancelled,
    build_run_failed,
    build_run_started,
    build_tool_called,
    build_tool_returned,
    build_user_message,
    trace,
    turn,
    use,
)
from tests.conversations.read_models import Storage, empty_tables

NOW = "2026-11-22T08:00:00.000000Z"
FORK = "01a2068f-2ae5-793c-9769-b645990fb9bd"
SOURCE = "01a2068f-2ae5-793c-9769-b645990fb9ba"
REPLY = "0192f0c1-7d11-7aaa-8bbb-0000000000d2"
QUESTION = "0192f0c1-7d11-7aaa-8bbb-0000000000d3"

_REPLIED, _COMPLETED = build_answer("First.", "a")
PAST: tuple[events.Event, ...] = (
    build_conversation_started(),
    *begin("a", "One", shown_sha256="5" * 64),
    *build_tool_called([use("call-1")], "a"),
    build_handed_over("a", 7),
    build_run_started("a", 2),
    build_tool_returned("call-1", word="a"),
    *build_delta("First.", "a", 2),
    msgspec.structs.replace(_REPLIED, message_id=REPLY),
    _COMPLETED,
    events.ConversationDescribed(trace_id=trace("d"), at=LATER, title="Title", metadata={"k": "v"}),
    msgspec.structs.replace(build_user_message("b", "Two"), message_id=QUESTION),
    build_run_started("b"),
    build_run_failed("b"),
    *turn("c", "Three", "Third."),
)
FIRST, SECOND = 13, 16
"""The versions before the second run, which is behind a description, and after it."""


def build_command(at: int | str | None = None, **more: Any) -> ForkConversation:
    fields = {"account_id": ACCOUNT, "conversation_id": FORK, "source_id": SOURCE} | more
    return ForkConversation(trace_id=trace("fork"), at=at, **fields)


def build_decided(
    at: int | str | None = None, source: Sequence[events.Event] = PAST, **more: Any
) -> tuple[events.Event, ...] | ForkAnswered:
    sizes = [len(mapper.encode_state(each)) for each in source]
    return forking.fork(source, sizes, build_command(at, **more), NOW)


def build_fork(
    at: int | str | None = None, source: Sequence[events.Event] = PAST
) -> tuple[events.Event, ...]:
    found = build_decided(at, source)
    assert not isinstance(found, ForkAnswered)
    return found


def list_texts(stored: Sequence[events.Event]) -> list[str]:
    return [event.content for event in stored if isinstance(event, events.MessageSaved)]


def find_start(version: int) -> events.ConversationForked:
    return events.ConversationForked(trace_id=trace("fork"), at=NOW, source_id=SOURCE, source_version=version)


def test_fork_names_its_source_and_shows_the_model_the_same() -> None:
    stored = build_fork()
    start = events.ConversationStarted(trace_id=trace("fork"), at=NOW, account_id=ACCOUNT)
    assert stored[:2] == (start, find_start(len(PAST)))
    source, fork = fold(SOURCE, PAST), fold(FORK, stored)
    assert fork.forked_from == ForkedFrom(SOURCE, len(PAST))
    assert (fork.title, fork.metadata) == ("Title", {"k": "v"})
    assert fork.active is None

    def list_shown_messages(conversation: Conversation) -> list[dict[str, Any]]:
        return build_prompt(conversation, conversation.runs[-1].trace_id, tools_offered=True).messages

    assert list_shown_messages(fork) == list_shown_messages(source)
    assert [run.state for run in fork.runs] == [run.state for run in source.runs]


def test_fork_has_the_user_and_the_labels_of_its_source() -> None:
    labels = {"user_id": "ada", "external_id": "ticket-1", "title": "A parcel", "metadata": {"a": "b"}}
    start = msgspec.structs.replace(PAST[0], **labels)
    assert build_decided(source=(start, *PAST[1:]), user_id="bob") == ForkAnswered(outcome="not_found")
    stored = build_decided(source=(start, *PAST[1:]), user_id="ada")
    assert not isinstance(stored, ForkAnswered)
    assert stored[0] == msgspec.structs.replace(start, trace_id=trace("fork"), at=NOW)


async def test_read_models_have_what_a_conversation_starts_with(storage: Storage) -> None:
    await empty_tables(storage.url)
    labels = {"user_id": "ada", "external_id": "ticket-1", "title": "A parcel", "metadata": {"a": "b"}}
    start = msgspec.structs.replace(PAST[0], **labels)
    await storage.store.append(Conversation(conversation_id=SOURCE), (start, *turn("a", "One", "First.")))
    await storage.follow()
    matching = ConversationFilter(user_id="ada", external_id="ticket-1", metadata={"a": "b"})
    (row,) = await list_account_conversations(storage.pool, ACCOUNT, limit=9, matching=matching)
    assert {name: getattr(row, name) for name in labels} == labels
    assert await storage.rows("SELECT DISTINCT user_id FROM runs") == [("ada",)]
    assert await storage.rows("SELECT count(*) FROM search WHERE text_id = conversation_id") == [(1,)]


def test_fork_has_ids_of_its_own_and_names_the_originals() -> None:
    copies = build_fork()[2:]
    originals = [each for each in PAST[1:] if not isinstance(each, events.ReplyLost)]
    assert [each.inherited_from for each in copies] == [each.trace_id for each in originals]
    assert [each.at for each in copies] == [each.at for each in originals]
    source, fork = fold(SOURCE, PAST), fold(FORK, build_fork())
    for mine, theirs in zip(fork.runs, source.runs, strict=True):
        assert mine.trace_id != theirs.trace_id
        assert mine.user_message_id != theirs.user_message_id
        assert mine.shown_sha256 is None
        assert mine.inherited
        if mine.reply is not None and theirs.reply is not None:
            assert mine.reply.id != theirs.reply.id
            assert mine.reply.conversation_id == FORK
    other = forking.fork(PAST, [0] * len(PAST), build_command(conversation_id=SOURCE[:-1] + "0"), NOW)
    assert not isinstance(other, ForkAnswered)
    assert {each.trace_id for each in other[2:]}.isdisjoint(each.trace_id for each in copies)
    assert build_fork() == build_fork()


def test_a_run_under_way_is_left_out_where_a_place_before_it_is_named() -> None:
    running = (*PAST, *begin("r", "Four"))
    assert build_decided(source=running) == ForkAnswered(outcome="busy", version=len(running))
    assert list_texts(build_fork(len(running), running)) == list_texts(PAST)
    assert list_texts(build_fork(REPLY, running)) == ["One", "First."]
    done = (*running, build_run_cancelled("r"))
    assert list_texts(build_fork(source=done)) == [*list_texts(PAST), "Four"]


def test_what_cannot_be_forked_says_why() -> None:
    assert build_decided(len(PAST) + 1) == ForkAnswered(outcome="unknown_version", version=len(PAST))
    unknown = "0192f0c1-7d11-7aaa-8bbb-0000000000ff"
    assert build_decided(unknown) == ForkAnswered(outcome="unknown_message", version=len(PAST))
    for at in (0, 1, AT):
        assert build_decided(at) == ForkAnswered(outcome="nothing_said")
    not_found = ForkAnswered(outcome="not_found")
    assert build_decided(user_id="ada") == not_found, "it is the account's"
    assert (
        build_decided(source=())
        == build_decided(source=(ERASED,))
        == build_decided(account_id="another")
        == not_found
    )


def test_what_is_too_large_is_refused() -> None:
    sizes = [0] * len(PAST)
    sizes[FIRST + 1] = forking.MAX_BYTES + 1
    assert forking.fork(PAST, sizes, build_command(), NOW) == ForkAnswered(outcome="too_large")
    assert not isinstance(forking.fork(PAST, sizes, build_command(FIRST), NOW), ForkAnswered)
    many = (*PAST, *(PAST[FIRST - 1] for _ in range(forking.MAX_EVENTS)))
    assert build_decided(source=many) == ForkAnswered(outcome="too_large")


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
def test_partly_read_source_is_forked_within_the_part(at: int | str | None, version: int | None) -> None:
    found = forking.fork(PAST, [0] * len(PAST), build_command(at), NOW, is_whole=False)
    if version is None:
        assert found == ForkAnswered(outcome="too_large")
    else:
        assert not isinstance(found, ForkAnswered)
        assert found[1] == find_start(version)


def test_a_fork_of_a_fork_is_of_that_and_a_repeat_has_the_same_answer() -> None:
    first = build_fork()
    second = forking.fork(first, [0] * len(first), build_command(conversation_id=SOURCE, source_id=FORK), NOW)
    assert not isinstance(second, ForkAnswered)
    assert fold(SOURCE, second).forked_from == ForkedFrom(FORK, len(first))
    assert list_texts(second) == list_texts(PAST)
    assert [each.inherited_from for each in second[2:]] == [each.trace_id for each in first[2:]]
    assert forking.find_answer((), build_command()) is None
    gone_on = (*first, *turn("later", "More", "Yes"))
    answer = ForkAnswered(outcome="forked", version=len(first))
    assert forking.find_answer(gone_on, build_command()) == answer
    another = build_command(account_id="another")
    assert forking.find_answer(gone_on, another) == ForkAnswered(outcome="not_found")


async def test_read_models_have_its_messages_and_no_runs_of_it(storage: Storage) -> None:
    await empty_tables(storage.url)
    source = await storage.store.append(Conversation(conversation_id=SOURCE), PAST)
    fork = await storage.store.append(Conversation(conversation_id=FORK), build_fork())
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
    summary = await read_thread.load_summary(storage.pool, FORK, fork.version)
    assert summary is not None
    assert summary.forked is not None
    assert (summary.forked.source_id, summary.count) == (SOURCE, 5)

    await storage.store.append(source, [ERASED])
    await storage.follow()
    again = await storage.store.load(FORK)
    assert again.runs == fork.runs
    page = await read_thread.list_messages(
        storage.pool, FORK, after=0, until=again.version, limit=9, max_bytes=10**6
    )
    assert [each.message.content for each in page.messages] == list_texts(PAST)
    assert await storage.rows("SELECT count(*) FROM messages") == [(5,)]
