"""The read model `search`: the words of messages, titles, metadata and feedback, and their stems.

Words are split here and not by Postgres' parser, so that documents and searches follow one rule in every
database. A word is a run of letters and digits in lower case, or one character of a script without spaces.
Postgres adds stems at the places of their words: the English ones, and those of its setting
`default_text_search_config` if that is another language. Words as written have the weight A, stems D.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from agentchat.contracts import events, ids
from agentchat.conversations.projections.projection import LoggedFact, Projection, Statement, put, remove

Origin = Literal["user", "assistant", "feedback", "title"]
ORIGINS: tuple[Origin, ...] = get_args(Origin)
"""The kind of a text: its speaker, feedback, or `title`, the title and the values of the metadata."""

MAX_CHARACTERS = 100_000
"""The characters of a text that are indexed.

A tsvector takes 1 MiB at most, which these cannot fill.
"""

MAX_WORD = 100
_MAX_PLACE = 16_383
"""The last place that a tsvector can record; later words are found, but in no phrase."""

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")

_TABLES = """
CREATE TABLE search (
    text_id text PRIMARY KEY,
    conversation_id text NOT NULL,
    account_id text NOT NULL,
    origin text NOT NULL,
    at text COLLATE "C" NOT NULL,
    words tsvector NOT NULL
);
CREATE INDEX search_conversation_idx ON search (conversation_id);
CREATE INDEX search_account_idx ON search (account_id);
CREATE INDEX search_at_idx ON search USING brin (at);
CREATE INDEX search_words_idx ON search USING gin (words) WITH (gin_pending_list_limit = 1024);
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON search TO agentchat_service;
"""


def split_words(text: str) -> Iterator[str]:
    """Yield the words of a text, in order."""
    folded = unicodedata.normalize("NFC", text).lower()
    return (found.group()[:MAX_WORD] for found in _WORD.finditer(folded))


def mark_origin(origin: Origin) -> str:
    """Return the lexeme that texts of an origin have; no word begins so."""
    return f"={origin}"


def build_tsvector(words: Sequence[str]) -> str:
    """Return words as Postgres reads a tsvector: `'ada':1A,7A 'order':2A`."""
    places: dict[str, list[str]] = {}
    for place, word in enumerate(words, start=1):
        places.setdefault(word, []).append(f"{min(place, _MAX_PLACE)}A")
    return " ".join(f"'{word}':{','.join(found)}" for word, found in places.items())


def _build_statements(facts: Sequence[LoggedFact]) -> list[Statement]:
    rows: dict[str, dict[str, object]] = {}
    withdrawn: set[str] = set()
    for fact in facts:
        if ids.is_unlisted(fact.conversation_id):
            continue
        match fact.event:
            case events.MessageSaved(message_id=message_id, role=role, content=content):
                rows.setdefault(message_id, _build_row(fact, message_id, role, content))
            case events.ConversationDescribed() as described:
                rows[fact.conversation_id] = _build_title_row(fact, described)
            case events.ConversationStarted() as started if started.title or started.metadata:
                rows[fact.conversation_id] = _build_title_row(fact, started)
            case events.FeedbackGiven(label=label, comment=comment) as feedback if label or comment:
                text_id = _build_feedback_id(feedback)
                rows[text_id] = _build_row(fact, text_id, "feedback", f"{label or ''} {comment or ''}")
                withdrawn.discard(text_id)
            case events.FeedbackGiven() | events.FeedbackWithdrawn() as feedback:
                text_id = _build_feedback_id(feedback)
                rows.pop(text_id, None)
                withdrawn.add(text_id)
            case _:
                pass
    return [*put(_UPSERT, list(rows.values())), *remove(_WITHDRAW, withdrawn)]


def _build_feedback_id(event: events.FeedbackGiven | events.FeedbackWithdrawn) -> str:
    return f"{event.message_id} {event.on_behalf_of or ''}"


def _build_title_row(
    fact: LoggedFact, event: events.ConversationStarted | events.ConversationDescribed
) -> dict[str, object]:
    text = " ".join((event.title or "", *event.metadata.values()))
    return _build_row(fact, fact.conversation_id, "title", text)


def _build_row(fact: LoggedFact, text_id: str, origin: Origin, text: str) -> dict[str, object]:
    words = list(split_words(text[:MAX_CHARACTERS]))
    return {
        "text_id": text_id,
        "conversation_id": fact.conversation_id,
        "account_id": fact.account_id,
        "origin": origin,
        "at": fact.event.at,
        "words": f"{build_tsvector(words)} '{mark_origin(origin)}'",
        "text": " ".join(words),
    }


PROJECTION = Projection(
    name="search",
    tables=_TABLES,
    takes=frozenset(
        {
            events.ConversationStarted,
            events.MessageSaved,
            events.ConversationDescribed,
            events.FeedbackGiven,
            events.FeedbackWithdrawn,
            events.ConversationErased,
        }
    ),
    takes_inherited=True,
    changes=_build_statements,
)

# Titles and feedback may change; a message never does.
_UPSERT = """
INSERT INTO search AS kept (text_id, conversation_id, account_id, origin, at, words)
SELECT text_id, conversation_id, account_id, origin, at,
       (words || ' ' || to_tsvector('pg_catalog.english', "text")::text || ' ' || CASE
        WHEN get_current_ts_config() IN ('pg_catalog.english'::regconfig, 'pg_catalog.simple'::regconfig)
        THEN '' ELSE to_tsvector("text")::text END)::tsvector
  FROM json_to_recordset(%s) AS new(text_id text, conversation_id text, account_id text, origin text, at text,
                                    words text, "text" text)
    ON CONFLICT (text_id) DO UPDATE SET at = excluded.at, words = excluded.words
 WHERE kept.origin IN ('title', 'feedback')
"""

_WITHDRAW = "DELETE FROM search WHERE text_id = ANY(%s)"
