"""Conversations of any length, written into the log as if they had been held."""

from collections.abc import Iterable, Iterator
from typing import Literal
from urllib.parse import quote, urlsplit

import psycopg

from contracts import events
from contracts.ids import new_id, new_trace_id
from contracts.values import Usage
from conversations.aggregate.canonical_stream import thinned
from conversations.database import EVENTS_TABLE
from conversations.event_store import mapper
from ops import demo
from ops.folder_secrets import login_password
from ops.servers.postgres_server import OWNER

Row = tuple[str, int, str, bytes]
TEXT = "The order was sent on Monday and should arrive within three days at the address that you gave us."
_AT = "2026-11-21T09:00:00.000000Z"
_USAGE = Usage(input_tokens=900, output_tokens=60)


def as_owner(database_url: str, key: str) -> str:
    """The address for the database's owner, who may write events by hand. `key` is that of the servers."""
    parts = urlsplit(database_url)
    password = quote(login_password(key, "postgres", OWNER), safe="")
    return f"postgresql://{OWNER}:{password}@{parts.hostname}:{parts.port}{parts.path}"


def of_service(owner_url: str, messages: int) -> str:
    """A conversation of the demo's account without limits; returns its id. Raises psycopg.Error."""
    (conversation,) = fill(owner_url, 1, messages)
    return conversation


def fill(owner_url: str, conversations: int, messages: int, text: str = TEXT) -> list[str]:
    """So many conversations of so many messages each, all of this text; returns their ids.

    Raises psycopg.Error.
    """
    made = [new_id() for _ in range(conversations)]
    rows = (row(each, *event) for each in made for event in enumerate(events_of(messages, text), start=1))
    with psycopg.connect(owner_url) as conn:
        copy_in(conn, rows)
        conn.execute(f"NOTIFY {EVENTS_TABLE}".encode())
    return made


def row(conversation_id: str, version: int, event: events.Event) -> Row:
    return conversation_id, version, mapper.topic_of(event), mapper.state_of(event)


def copy_in(conn: psycopg.Connection, rows: Iterable[Row]) -> None:
    """Append them to the log, by COPY. Raises psycopg.Error."""
    statement = f"COPY {EVENTS_TABLE} (originator_id, originator_version, topic, state) FROM STDIN"
    with conn.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        for each in rows:
            copy.write_row(each)


def in_pieces(owner_url: str, rounds: int, pieces: int) -> str:
    """A conversation with one run, whose model sent each character as a piece; returns the trace.

    It is stored as the service stores it, which joins pieces beyond a number. Raises psycopg.Error.
    """
    trace, text = new_trace_id(), "x" * pieces
    facts: list[events.Event] = [_started(trace)]
    replies: list[events.Event] = []
    for number in range(1, rounds + 1):
        cuts = thinned(range(1, pieces + 1))
        replies.append(events.Delta(trace_id=trace, at=_AT, round=number, text=text, cuts=cuts))
        replies.append(_replied(trace, number, text))
    facts += _run(trace, replies, TEXT, text * rounds, rounds)
    conversation_id = new_id()
    with psycopg.connect(owner_url) as conn:
        copy_in(conn, (row(conversation_id, *each) for each in enumerate(facts, start=1)))
    return trace


def events_of(messages: int, text: str = TEXT) -> Iterator[events.Event]:
    """Of a conversation, 1 + 5 for every two messages, which have the text three times."""
    yield _started(new_trace_id())
    for _ in range(messages // 2):
        trace = new_trace_id()
        yield from _run(trace, [_replied(trace, 1, text)], text, text, 1)


def _run(
    trace: str, replies: Iterable[events.Event], question: str, content: str, rounds: int
) -> Iterator[events.Event]:
    yield _message(trace, "user", question)
    yield events.RunStarted(trace_id=trace, at=_AT, attempt=1, agent_version=1, model="lean", form="form1")
    yield from replies
    yield _message(trace, "assistant", content)
    yield events.RunCompleted(trace_id=trace, at=_AT, usage=_USAGE, rounds=rounds)


def _started(trace: str) -> events.Event:
    return events.ConversationStarted(trace_id=trace, at=_AT, account_id=demo.LOAD_ACCOUNT_ID)


def _replied(trace: str, number: int, text: str) -> events.Event:
    return events.ModelReplied(
        trace_id=trace,
        at=_AT,
        round=number,
        blocks=({"type": "text", "text": text},),
        stop_reason="end_turn",
        usage=_USAGE,
    )


def _message(trace: str, role: Literal["user", "assistant"], content: str) -> events.MessageSaved:
    return events.MessageSaved(
        trace_id=trace,
        at=_AT,
        message_id=new_id(),
        role=role,
        agent_id=demo.LOAD_AGENT_ID,
        content=content,
        token_count=None if role == "user" else 60,
    )
