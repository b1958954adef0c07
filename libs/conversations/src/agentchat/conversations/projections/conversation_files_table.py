"""The read model `conversation_files`: which conversations have a file, forks included."""

from collections.abc import Sequence

from agentchat.contracts import events
from agentchat.contracts.files import StoredFile
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
        for file in _list_files(fact.event)
    ]
    return put(_INSERT, rows)


def _list_files(event: events.Event) -> tuple[StoredFile, ...]:
    match event:
        case events.MessageSaved(attachments=files) | events.ToolReturned(files=files):
            return files
        case events.MessageReceived(message=message):
            return message.attachments
        case events.ConversationSeeded(messages=messages):
            return tuple(file for message in messages for file in message.attachments)
        case _:
            return ()


PROJECTION = Projection(
    name="conversation_files",
    tables=_TABLES,
    takes=frozenset(
        {
            events.ConversationSeeded,
            events.MessageReceived,
            events.MessageSaved,
            events.ToolReturned,
            events.ConversationErased,
        }
    ),
    takes_inherited=True,
    changes=_build_statements,
)

_INSERT = insert("conversation_files", "conversation_id text, file_id text", "DO NOTHING")
