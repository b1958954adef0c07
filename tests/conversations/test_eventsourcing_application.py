"""The log as an application of the eventsourcing library: the library's own test suites on our recorder, its
repository and projections on our conversations.
"""

import asyncio
import logging
import re
import subprocess
import sys
import unittest
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import psycopg
import pytest
from eventsourcing.application import AggregateNotFoundError
from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    IntegrityError,
    MapperDeserialisationError,
    StoredEvent,
    Tracking,
)
from eventsourcing.popo import POPOTrackingRecorder
from eventsourcing.projection import Projection, ProjectionRunner
from eventsourcing.tests import persistence as suites
from psycopg.conninfo import make_conninfo

from agentchat.contracts.events import Event
from agentchat.contracts.ids import make_id
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.errors import VersionConflict
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.event_store.mapper import ConversationEvent
from agentchat.conversations.event_store.recorder import ConversationRecorder
from agentchat.conversations.eventsourcing_application import DATABASE_URL, ConversationLog, project
from agentchat.ops import table_grants
from agentchat.runtime.database_roles import OPERATOR
from tests.conversations.given import (
    ERASED,
    begin,
    build_answer,
    build_conversation_started,
    build_run_failed,
    build_user_message,
    turn,
)


@pytest.fixture
def application(migrated_database_url: str) -> Iterator[ConversationLog]:
    with ConversationLog({DATABASE_URL: migrated_database_url}) as opened:
        yield opened


@pytest.fixture
def empty_log_url(migrated_database_url: str) -> str:
    with psycopg.connect(migrated_database_url) as owner:
        owner.execute("TRUNCATE conversation_events RESTART IDENTITY CASCADE")
    return migrated_database_url


class _FromOne(ConversationRecorder):
    """The suites count from 0 in some tests; the first version of a conversation is 1."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int]:
        shift = int(any(each.originator_version == 0 for each in stored_events))
        shifted = [
            replace(each, originator_version=each.originator_version + shift) for each in stored_events
        ]
        return super().insert_events(shifted, **kwargs)


class _Suite(suites.RecorderTestCase):
    __test__ = False  # by the function below, on a database
    recorder: AggregateRecorder

    def new_originator_id(self) -> str:
        return make_id()

    def create_recorder(self) -> Any:
        return self.recorder


class _OfEvents(_Suite, suites.ApplicationRecorderTestCase[ApplicationRecorder]):
    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class _OfPositions(_Suite, suites.NonInterleavingNotificationIDsBaseCase):
    pass


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        (suite, name)
        for suite in (_OfEvents, _OfPositions)
        for name in unittest.defaultTestLoader.getTestCaseNames(suite)
    ],
)
def test_the_librarys_own_suites_pass(suite: type[_Suite], name: str, empty_log_url: str) -> None:
    with ConversationLog({DATABASE_URL: empty_log_url}) as application:
        assert isinstance(application.recorder, ConversationRecorder)
        case = suite(name)
        case.recorder = _FromOne(application.recorder.datastore)
        case.debug()


async def test_a_conversation_that_a_service_stored_is_an_aggregate(
    application: ConversationLog, store: ConversationStore
) -> None:
    conversation = await store.append(
        Conversation(conversation_id=make_id()),
        [build_conversation_started(), *turn("a", "Where is it?", "In Utrecht.")],
    )
    found = application.repository.get(conversation.id, projector_func=project)
    assert replace_bytes(found) == replace_bytes(await store.load(conversation.id))
    earlier = application.repository.get(conversation.id, version=2, projector_func=project)
    assert (earlier.version, earlier.runs[0].state) == (2, "running")
    with pytest.raises(AggregateNotFoundError):
        application.repository.get(make_id(), projector_func=project)


async def test_events_of_the_library_and_of_services_are_one_log(
    application: ConversationLog, store: ConversationStore, log: Log
) -> None:
    conversation_id = make_id()
    stored: list[Event] = [build_conversation_started(), *begin()]
    recordings = application.events.put(
        [ConversationEvent(conversation_id, version, event) for version, event in enumerate(stored, start=1)]
    )
    conversation = await store.load(conversation_id)
    assert conversation.version == 3
    conversation = await store.append(conversation, build_answer("Here.", "a"))
    with pytest.raises(IntegrityError):
        application.events.put([ConversationEvent(conversation_id, 4, build_run_failed("a"))])
    application.events.put([ConversationEvent(conversation_id, 6, build_user_message("b"))])
    with pytest.raises(VersionConflict):
        await store.append(conversation, [build_user_message("c")])
    entries = await log.read_rows(conversation_id)
    assert [entry.position for entry in entries[:3]] == [each.notification.id for each in recordings]
    assert [entry.version for entry in entries] == [1, 2, 3, 4, 5, 6]


async def test_what_is_erased_is_not_shown(application: ConversationLog, store: ConversationStore) -> None:
    many: list[Event] = [
        build_conversation_started(),
        *(build_user_message(str(number)) for number in range(600)),
    ]
    conversation = await store.append(Conversation(conversation_id=make_id()), many)
    conversation = await store.append(conversation, [ERASED])
    assert application.repository.get(conversation.id, projector_func=project).erased
    (left,) = application.events.get(conversation.id)
    shown = [
        each
        for each in application.recorder.select_notifications(None, 5000)
        if each.originator_id == conversation.id
    ]
    assert [each.originator_version for each in shown] == [left.originator_version] == [602]


async def test_an_event_that_cannot_be_decoded_is_named(
    application: ConversationLog, store: ConversationStore
) -> None:
    conversation_id = make_id()
    await store.append(Conversation(conversation_id=conversation_id), [build_conversation_started()])
    await store.append_stored(conversation_id, 1, [("message_saved.v9", b"{}")])
    with pytest.raises(
        MapperDeserialisationError, match=f"message_saved.v9: .*version 2 of {conversation_id}"
    ):
        application.repository.get(conversation_id, projector_func=project)


class _Messages(POPOTrackingRecorder):
    def __init__(self) -> None:
        super().__init__()
        self.of: dict[str, int] = {}


class _Counting(Projection[_Messages]):
    name = "counting"
    topics = ("message_saved.v1",)

    def process_event(self, domain_event: Any, tracking: Tracking) -> None:
        counted = cast("ConversationEvent", domain_event)
        self.view.of[counted.originator_id] = self.view.of.get(counted.originator_id, 0) + 1
        self.view.insert_tracking(tracking)


async def test_a_projection_of_the_library_follows_the_log(
    store: ConversationStore, log: Log, migrated_database_url: str
) -> None:
    before = await store.append(
        Conversation(conversation_id=make_id()), [build_conversation_started(), *turn("a", "Hello", "Hi")]
    )
    with ProjectionRunner(
        application_class=ConversationLog,
        projection_class=_Counting,
        view_class=_Messages,
        env={DATABASE_URL: migrated_database_url},
    ) as runner:
        meanwhile = await store.append(
            Conversation(conversation_id=make_id()), [build_conversation_started(), build_user_message("b")]
        )
        await asyncio.to_thread(runner.wait, await log.read_head(), timeout=20)
        assert (runner.projection.view.of[before.id], runner.projection.view.of[meanwhile.id]) == (2, 1)


def test_without_a_database_it_says_which_setting_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATABASE_URL, raising=False)
    with pytest.raises(OSError, match="AGENTCHAT_DATABASE_URL is not set"):
        ConversationLog()


async def test_the_examples_of_the_documentation_run_as_an_operator(
    empty_log_url: str,
    store: ConversationStore,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    conversation = Conversation(conversation_id=make_id())
    await store.append(
        conversation, [build_conversation_started(), *turn("a", "Where is it?", "In Utrecht.")]
    )
    await table_grants.grant(empty_log_url)
    operator = make_conninfo(empty_log_url, options=f"-c role={OPERATOR}")
    monkeypatch.setenv(DATABASE_URL, operator)
    page = (Path(__file__).parents[2] / "docs/analyse/consumers.md").read_text()
    examples = [
        each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "ConversationLog" in each
    ]
    assert examples
    for example in examples:
        await asyncio.to_thread(exec, example, {})
    shown = capsys.readouterr().out
    assert "conversation_started.v1" in shown


def replace_bytes(conversation: Conversation) -> Conversation:
    """No fold knows them."""
    return msgspec.structs.replace(conversation, stored_bytes=0)


@pytest.mark.parametrize("name", ["psycopg", "psycopg.pool"])
def test_library_does_not_hide_failures_of_the_pool(name: str) -> None:
    """`eventsourcing.postgres` sets these loggers to ERROR when it is imported."""
    code = (
        "import logging, agentchat.conversations.event_store.recorder;"
        f"print(logging.getLogger({name!r}).level)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == str(logging.NOTSET)
