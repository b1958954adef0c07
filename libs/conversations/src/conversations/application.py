"""The log as an application of the eventsourcing library: for whoever knows the library, and nothing hot.

`ConversationLog` opens the log of a database by the library's own classes: its recorder on our table and
snapshots, its `repository`, `notification_log` and subscriptions, and so its projections
(https://eventsourcing.readthedocs.io). Services read and append the same rows by asynchronous statements of
`event_store`, which are held to this recorder by tests.

What is ours: an advisory lock, by which those who append by the library take turns, in the place of a lock on
the table; notifications end at the settled position, since services do not wait for them
(`event_store.settled_position`); rows of erased conversations, and of forks that are being written, are not
shown; topics are the tags of events, and states their JSON, by msgspec.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from eventsourcing.application import Application
from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    InfrastructureFactory,
    Mapper,
    MapperDeserialisationError,
    Notification,
    ProcessRecorder,
    StoredEvent,
    TrackingRecorder,
    Transcoder,
)
from eventsourcing.postgres import (
    ConnectionPool,
    PostgresAggregateRecorder,
    PostgresApplicationRecorder,
    PostgresDatastore,
)
from eventsourcing.utils import Environment, EnvType
from msgspec.structs import replace
from psycopg import Connection, sql
from psycopg.rows import DictRow, dict_row

from contracts import events, wire
from conversations.aggregate.conversation import Conversation, evolve_all
from conversations.database import APPEND_LOCK, EVENTS_TABLE, FOUND
from conversations.errors import UnreadableEvent
from conversations.event_store import mapper, snapshots
from runtime.postgres import CALL_SECONDS, connect_options

DATABASE_URL = "AGENTCHAT_DATABASE_URL"
_MAX_CONNECTIONS = 10


@dataclass(frozen=True)
class ConversationEvent:
    """A domain event as the library has it: an event of `contracts.events`, and its place."""

    originator_id: str
    originator_version: int
    event: events.Event


@dataclass(frozen=True)
class ConversationSnapshot:
    """The library's snapshot: the state of a conversation at a version."""

    originator_id: str
    originator_version: int
    state: Conversation

    @classmethod
    def take(cls, aggregate: Conversation) -> Self:
        return cls(aggregate.conversation_id, aggregate.version, aggregate)


class EventTranscoder(Transcoder):
    """Events to their JSON and back, by msgspec; the tag in it names the class."""

    def encode(self, obj: events.Event) -> bytes:
        return wire.encode(obj)

    def decode(self, data: bytes) -> events.Event:
        """The event. Raises msgspec.DecodeError."""
        return wire.decode_event(data)


class ConversationMapper(Mapper[str]):
    """Events and snapshots to rows and back; events of earlier tags are upcast as they are read."""

    def to_stored_event(self, domain_event: Any) -> StoredEvent:
        if isinstance(domain_event, ConversationSnapshot):
            topic, state = snapshots.topic(), snapshots.encode(domain_event.state)
        else:
            topic, state = mapper.topic_of(domain_event.event), self.transcoder.encode(domain_event.event)
        return StoredEvent(domain_event.originator_id, domain_event.originator_version, topic, state)

    def to_domain_event(self, stored_event: StoredEvent) -> ConversationEvent | ConversationSnapshot:
        """The ConversationEvent or ConversationSnapshot of a row. Raises MapperDeserialisationError."""
        conversation_id, version = str(stored_event.originator_id), stored_event.originator_version
        try:
            if snapshots.is_topic(stored_event.topic):
                state = snapshots.decode(stored_event.state)
                return ConversationSnapshot(conversation_id, version, state)
            event = mapper.event_of(stored_event.topic, stored_event.state)
        except (UnreadableEvent, ValueError) as error:
            place = f"{conversation_id} at version {version}"
            raise MapperDeserialisationError(f"cannot decode the event of {place}: {error}") from error
        return ConversationEvent(conversation_id, version, event)


class ConversationRecorder(PostgresApplicationRecorder):
    """The library's recorder on our table, without what no reader sees."""

    def __init__(self, datastore: PostgresDatastore) -> None:
        super().__init__(datastore, events_table_name=EVENTS_TABLE)
        self.lock_table_statements = [sql.SQL("SELECT pg_advisory_xact_lock({})").format(APPEND_LOCK)]
        self.select_events_statement = sql.SQL(
            "SELECT originator_id, originator_version, topic, state FROM {} WHERE {} AND originator_id = %s"
        ).format(sql.Identifier(EVENTS_TABLE), FOUND)
        # Its queries of notifications name the table when they are made.
        self.events_table_name = "readable_conversation_events"

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """The library's, up to the settled position. Raises the library's exceptions."""
        with self.datastore.get_connection() as conn:
            row = conn.execute("SELECT settled_position() AS settled").fetchone()
        assert row is not None, "a function gives one row"
        stop = row["settled"] if stop is None else min(stop, row["settled"])
        found: Sequence[Notification] = super().select_notifications(
            start, limit, stop, topics, inclusive_of_start=inclusive_of_start
        )
        return found


class SnapshotRecorder(PostgresAggregateRecorder):
    """The library's recorder on the table of snapshots; those of another layout are not shown."""

    def __init__(self, datastore: PostgresDatastore) -> None:
        super().__init__(datastore, events_table_name=snapshots.TABLE)
        self.select_events_statement = sql.SQL(
            "SELECT originator_id, originator_version, topic, state FROM {} WHERE originator_id = %s"
            " AND (topic = {} OR NOT starts_with(topic, {}))"
        ).format(sql.Identifier(snapshots.TABLE), snapshots.topic(), snapshots.PREFIX)


class _Datastore(PostgresDatastore):
    """The library's, by a URL with all that it says (TLS, for example), and our bounds of time."""

    def __init__(self, database_url: str) -> None:
        super().__init__("", "", "", "", "", originator_id_type="text")
        self.pool = ConnectionPool(
            database_url,
            connection_class=Connection[DictRow],
            kwargs=connect_options(database_url, role=None) | {"row_factory": dict_row},
            min_size=1,
            max_size=_MAX_CONNECTIONS,
            open=False,
            timeout=CALL_SECONDS,
        )


class _Factory(InfrastructureFactory[TrackingRecorder]):
    def __init__(self, env: Environment | EnvType | None) -> None:
        super().__init__(env)
        url = self.env.get(DATABASE_URL)
        if not url:
            raise OSError(f"{DATABASE_URL} is not set")
        self.datastore = _Datastore(url)

    def close(self) -> None:
        self.datastore.close()

    def aggregate_recorder(self, purpose: str = "events") -> AggregateRecorder:
        return SnapshotRecorder(self.datastore) if purpose == "snapshots" else self.application_recorder()

    def application_recorder(self) -> ApplicationRecorder:
        return ConversationRecorder(self.datastore)

    def tracking_recorder(self, tracking_recorder_class: Any = None) -> TrackingRecorder:
        raise NotImplementedError("a projection keeps its position in a database of its own")

    def process_recorder(self) -> ProcessRecorder:
        raise NotImplementedError("a projection keeps its position in a database of its own")


class ConversationLog(Application[str]):
    """The log of the database at AGENTCHAT_DATABASE_URL, out of `env` or the environment.

    `repository.get(conversation_id, projector_func=project)` is a conversation, with `version=` as it was.
    Raises OSError where the variable is not set, the library's exceptions where Postgres does not answer.
    """

    name = "conversations"
    is_snapshotting_enabled = True
    log_section_size = 1000
    snapshot_class = ConversationSnapshot

    def construct_factory(self, env: Environment) -> InfrastructureFactory[TrackingRecorder]:
        return _Factory(env)

    def construct_transcoder(self) -> Transcoder:
        return EventTranscoder()

    def construct_mapper(self) -> Mapper[str]:
        return self.factory.mapper(self.construct_transcoder(), mapper_class=ConversationMapper)


def project(
    conversation: Conversation | None, stored: Iterable[ConversationEvent | ConversationSnapshot]
) -> Conversation | None:
    """The library's projector function: the state after a snapshot, or None, and what came after it."""
    following: list[events.Event] = []
    for each in stored:
        if isinstance(each, ConversationSnapshot):
            conversation = each.state
            continue
        conversation = conversation or Conversation(conversation_id=each.originator_id)
        version = each.originator_version  # of an imported erasure the events before are not there
        following.append(each.event)
    if conversation is None or not following:
        return conversation
    return replace(evolve_all(conversation, following), version=version)
