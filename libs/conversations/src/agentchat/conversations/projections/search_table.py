"""The read model `search`: the words of messages, titles and metadata.

Words are split here and not by Postgres' parser, so that documents and searches follow one rule in every
database. A word is a run of letters and digits in lower case, or one character of a script without spaces.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence

from agentchat.contracts import events, ids
from agentchat.conversations.projections.projection import LoggedFact, Projection, Statement, insert, put

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


def build_tsvector(text: str) -> str:
    """Return a text as Postgres reads a tsvector: `'ada':1,7 'order':2`."""
    places: dict[str, list[str]] = {}
    for place, word in enumerate(split_words(text[:MAX_CHARACTERS]), start=1):
        places.setdefault(word, []).append(str(min(place, _MAX_PLACE)))
    return " ".join(f"'{word}':{','.join(found)}" for word, found in places.items())


def _build_statements(facts: Sequence[LoggedFact]) -> list[Statement]:
    rows: dict[str, dict[str, object]] = {}
    for fact in facts:
        if ids.is_unlisted(fact.conversation_id):
            continue
        match fact.event:
            case events.MessageSaved() as message:
                rows.setdefault(message.message_id, _build_row(fact, message.message_id, message.content))
            case events.ConversationDescribed() as described:
                rows[fact.conversation_id] = _build_label_row(fact, described)
            case events.ConversationStarted() as started if started.title or started.metadata:
                rows[fact.conversation_id] = _build_label_row(fact, started)
            case _:
                pass
    return put(_UPSERT, list(rows.values()))


def _build_label_row(
    fact: LoggedFact, event: events.ConversationStarted | events.ConversationDescribed
) -> dict[str, object]:
    text = " ".join((event.title or "", *event.metadata.values()))
    return _build_row(fact, fact.conversation_id, text)


def _build_row(fact: LoggedFact, text_id: str, text: str) -> dict[str, object]:
    return {
        "text_id": text_id,
        "conversation_id": fact.conversation_id,
        "account_id": fact.account_id,
        "at": fact.event.at,
        "words": build_tsvector(text),
    }


PROJECTION = Projection(
    name="search",
    tables=_TABLES,
    takes=frozenset(
        {
            events.ConversationStarted,
            events.MessageSaved,
            events.ConversationDescribed,
            events.ConversationErased,
        }
    ),
    takes_inherited=True,
    changes=_build_statements,
)

# Only the row of a conversation's title changes, whose id is the conversation's; a message never does.
_UPSERT = insert(
    "search",
    "text_id text, conversation_id text, account_id text, at text, words tsvector",
    """(text_id) DO UPDATE SET at = excluded.at, words = excluded.words
 WHERE kept.text_id = kept.conversation_id""",
)
