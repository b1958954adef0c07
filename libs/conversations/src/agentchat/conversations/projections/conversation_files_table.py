"""The read model `conversation_files`: which conversations have a file, forks included.

The rows of an erased conversation say which files go with it, so erasing removes them
(`agentchat.files.file_removal`).
"""

from collections.abc import Sequence

from agentchat.contracts import events
from agentchat.conversations.projections.projection import LoggedFact, Projection, Statement, insert, put

_TABLES = """
CREATE TABLE conversation_files (
    conversation_id text NOT NULL,
    file_id text NOT NULL,
    PRIMARY KEY (conversation_id, file_id)
);
CREATE INDEX conversation_files_by_file ON conversation_files (file_id);
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON conversation_files TO agentchat_service;
"""


def _build_statements(facts: Sequence[LoggedFact]) -> list[Statement]:
    rows = [
        {"conversation_id": fact.conversation_id, "file_id": file.file_id}
        for fact in facts
        if isinstance(fact.event, events.MessageSaved)
        for file in fact.event.attachments
    ]
    return put(_INSERT, rows)


PROJECTION = Projection(
    name="conversation_files",
    tables=_TABLES,
    takes=frozenset({events.MessageSaved}),
    takes_inherited=True,
    keeps_erased=True,
    changes=_build_statements,
)

_INSERT = insert("conversation_files", "conversation_id text, file_id text", "DO NOTHING")
