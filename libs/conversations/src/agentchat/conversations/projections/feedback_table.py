"""The read model `feedback`: one row for each reply and name, with the newest feedback."""

from collections.abc import Sequence
from typing import Literal, get_args

from agentchat.contracts import events
from agentchat.conversations.projections.projection import LoggedFact, Projection, Statement, insert, put

Rating = Literal["bad", "good"]
RATINGS: tuple[Rating, ...] = get_args(Rating)
"""The ratings of a reply: its mean score is below 0, or above."""

_TABLES = """
CREATE TABLE feedback (
    message_id text NOT NULL,
    on_behalf_of text NOT NULL,
    trace_id text NOT NULL,
    conversation_id text NOT NULL,
    account_id text NOT NULL,
    score double precision NOT NULL,
    label text,
    comment text,
    given_at text COLLATE "C" NOT NULL,
    PRIMARY KEY (message_id, on_behalf_of)
);
CREATE INDEX feedback_trace_idx ON feedback (trace_id);
CREATE INDEX feedback_conversation_idx ON feedback (conversation_id);
CREATE INDEX feedback_account_idx ON feedback (account_id, given_at);
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON feedback TO agentchat_service;
"""


def _build_statements(facts: Sequence[LoggedFact]) -> list[Statement]:
    newest: dict[tuple[str, str], tuple[LoggedFact, events.FeedbackGiven | events.FeedbackWithdrawn]] = {}
    for fact in facts:
        if isinstance(fact.event, events.FeedbackGiven | events.FeedbackWithdrawn):
            newest[fact.event.message_id, fact.event.on_behalf_of or ""] = (fact, fact.event)
    given = [
        _build_row(fact, event) for fact, event in newest.values() if isinstance(event, events.FeedbackGiven)
    ]
    withdrawn = [
        {"message_id": message_id, "on_behalf_of": name}
        for (message_id, name), (_, event) in newest.items()
        if isinstance(event, events.FeedbackWithdrawn)
    ]
    return [*put(_UPSERT, given), *put(_WITHDRAW, withdrawn)]


def _build_row(fact: LoggedFact, given: events.FeedbackGiven) -> dict[str, object]:
    return {
        "message_id": given.message_id,
        "on_behalf_of": given.on_behalf_of or "",
        "trace_id": given.trace_id,
        "conversation_id": fact.conversation_id,
        "account_id": fact.account_id,
        "score": given.score,
        "label": given.label,
        "comment": given.comment,
        "given_at": given.at,
    }


PROJECTION = Projection(
    name="feedback",
    tables=_TABLES,
    takes=frozenset({events.FeedbackGiven, events.FeedbackWithdrawn, events.ConversationErased}),
    changes=_build_statements,
)

_UPSERT = insert(
    "feedback",
    "message_id text, on_behalf_of text, trace_id text, conversation_id text, account_id text, "
    "score double precision, label text, comment text, given_at text",
    """(message_id, on_behalf_of) DO UPDATE
   SET score = excluded.score, label = excluded.label, comment = excluded.comment,
       given_at = excluded.given_at""",
)

_WITHDRAW = """
DELETE FROM feedback USING json_to_recordset(%s) AS old(message_id text, on_behalf_of text)
 WHERE feedback.message_id = old.message_id AND feedback.on_behalf_of = old.on_behalf_of
"""
