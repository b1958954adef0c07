"""The yardstick: the eventsourcing library's own projection runner, on the same views and statements.

Its runner takes one event, in one transaction with its tracking record, at a time. What it runs for each
event is what each projection's `changes` gives, over the library's connection.
"""

import time
from typing import Any

from eventsourcing.persistence import Tracking
from eventsourcing.postgres import PostgresTrackingRecorder
from eventsourcing.projection import Projection, ProjectionRunner
from psycopg.conninfo import conninfo_to_dict

from contracts import events, wire
from conversations.application import DATABASE_URL, ConversationLog
from conversations.projections.projection import LoggedFact
from conversations.projections.registry import PROJECTIONS

_SECONDS = 600.0
_TOPICS = tuple(events.tag_of(cls) for cls in events.EVENTS if any(cls in each.takes for each in PROJECTIONS))


def seconds_for(database_url: str, position: int) -> float:
    """How long the runner takes from the log's beginning to `position`, into the live tables."""
    with ProjectionRunner(
        application_class=ConversationLog,
        projection_class=_Views,
        view_class=_Tables,
        env=_environment(database_url) | {DATABASE_URL: database_url},
    ) as runner:
        began = time.monotonic()
        runner.wait(position, timeout=_SECONDS)
        return time.monotonic() - began


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
        size = len(wire.encode(domain_event.event))
        self.view.take(domain_event.originator_id, domain_event.event, tracking, size)


def _environment(database_url: str) -> dict[str, str]:
    given = conninfo_to_dict(database_url)
    return {
        "PERSISTENCE_MODULE": "eventsourcing.postgres",
        "POSTGRES_DBNAME": str(given["dbname"]),
        "POSTGRES_HOST": str(given["host"]),
        "POSTGRES_PORT": str(given["port"]),
        "POSTGRES_USER": str(given["user"]),
        "POSTGRES_PASSWORD": str(given["password"]),
    }
