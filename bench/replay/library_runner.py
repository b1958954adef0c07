"""The yardstick: the eventsourcing library's own projection runner, on the same views and statements.

Its runner takes one event, in one transaction with its tracking record, at a time. What it runs for each
event is what each projection's `changes` gives, over the library's connection.
"""

import time
from typing import Any

from eventsourcing.application import Application
from eventsourcing.persistence import Mapper, StoredEvent, Tracking
from eventsourcing.postgres import PostgresTrackingRecorder
from eventsourcing.projection import Projection, ProjectionRunner
from psycopg.conninfo import conninfo_to_dict

from contracts import events
from conversations.event_store import mapper
from conversations.projections.projection import LoggedFact
from conversations.projections.registry import PROJECTIONS

_SECONDS = 600.0
_TOPICS = tuple(events.tag_of(cls) for cls in events.EVENTS if any(cls in each.takes for each in PROJECTIONS))


def seconds_for(database_url: str, position: int) -> float:
    """How long the runner takes from the log's beginning to `position`, into the live tables."""
    with ProjectionRunner(
        application_class=_Log,
        projection_class=_Views,
        view_class=_Tables,
        env=_environment(database_url),
    ) as runner:
        began = time.monotonic()
        runner.wait(position, timeout=_SECONDS)
        return time.monotonic() - began


class _TaggedMapper(Mapper[str]):
    """Our tags and JSON in place of class paths."""

    def to_domain_event(self, stored_event: StoredEvent) -> Any:
        event = mapper.event_of(stored_event.topic, stored_event.state)
        return str(stored_event.originator_id), event, len(stored_event.state)


class _Log(Application[str]):
    """Our table by the library's naming: the name and `_events`."""

    name = "conversation"

    def construct_mapper(self) -> Mapper[str]:
        return self.factory.mapper(self.construct_transcoder(), mapper_class=_TaggedMapper)


class _Tables(PostgresTrackingRecorder):
    """The read models, each event in a transaction with its tracking record."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._accounts: dict[str, str] = {}

    def take(self, conversation_id: str, event: events.Event, tracking: Tracking, size: int) -> None:
        if isinstance(event, events.ConversationStarted | events.ConversationErased):
            self._accounts[conversation_id] = event.account_id
        account_id = self._accounts.get(conversation_id, "unknown")
        fact = LoggedFact(tracking.notification_id, conversation_id, account_id, event, size)
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)
            for each in PROJECTIONS:
                if type(event) in each.takes:
                    for statement, parameters in each.changes([fact]):
                        cursor.execute(statement, parameters)


class _Views(Projection[_Tables]):
    """Hands each event to the tables."""

    name = "library_views"
    topics = _TOPICS

    def process_event(self, domain_event: Any, tracking: Tracking) -> None:
        conversation_id, event, size = domain_event
        self.view.take(conversation_id, event, tracking, size)


def _environment(database_url: str) -> dict[str, str]:
    given = conninfo_to_dict(database_url)
    return {
        "PERSISTENCE_MODULE": "eventsourcing.postgres",
        "ORIGINATOR_ID_TYPE": "text",
        "POSTGRES_ORIGINATOR_ID_TYPE": "text",
        "CONVERSATION_CREATE_TABLE": "n",
        "POSTGRES_DBNAME": str(given["dbname"]),
        "POSTGRES_HOST": str(given["host"]),
        "POSTGRES_PORT": str(given["port"]),
        "POSTGRES_USER": str(given["user"]),
        "POSTGRES_PASSWORD": str(given["password"]),
    }
