"""Write conversations to a file of JSON lines.

The file has a header line, one line per event with the event's bytes as stored, and an end line with the
counts and the SHA-256 of every byte before it. The events of a conversation stand together and in order.
"""

import hashlib
from collections.abc import Sequence
from typing import BinaryIO

import msgspec

from agentchat.contracts import wire
from agentchat.conversations.aggregate.forking import count_settled
from agentchat.conversations.event_store.event_log import Log, LogEntry

FORMAT = "agentchat.conversations"
FORMAT_VERSION = 1


class FileHeader(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="header"):
    """The first line of an export."""

    format: str
    version: int
    exported_at: str


class EventLine(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="event"):
    """One event; `event` holds the stored bytes."""

    conversation_id: str
    version: int
    event: msgspec.Raw


class EndLine(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="end"):
    """The last line of an export."""

    conversations: int
    events: int
    sha256: str


class ExportableEvents(msgspec.Struct, frozen=True):
    """The entries of a conversation before its active run, which has `active_run_events` more."""

    entries: tuple[LogEntry, ...]
    active_run_events: int


async def load_exportable_events(log: Log, conversation_id: str) -> ExportableEvents:
    """Load the events of a conversation that an export contains: all but those of an active run.

    Raises:
        DatabaseUnavailable, UnreadableEvent
    """
    entries = await log.read_rows(conversation_id)
    kept = count_settled([entry.event for entry in entries])
    return ExportableEvents(tuple(entries[:kept]), len(entries) - kept)


class ExportWriter:
    """Write an export. A file without its end line is incomplete."""

    def __init__(self, file: BinaryIO, *, exported_at: str) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.conversations = self.events = 0
        self._write(FileHeader(format=FORMAT, version=FORMAT_VERSION, exported_at=exported_at))

    def add(self, entries: Sequence[LogEntry]) -> None:
        """Write the events of one conversation."""
        for entry in entries:
            state = msgspec.Raw(entry.state)
            self._write(EventLine(conversation_id=entry.conversation_id, version=entry.version, event=state))
        self.conversations += 1
        self.events += len(entries)

    def end(self) -> None:
        """Write the end line."""
        digest = self._hash.hexdigest()
        self._write(EndLine(conversations=self.conversations, events=self.events, sha256=digest))

    def _write(self, line: FileHeader | EventLine | EndLine) -> None:
        data = wire.encode(line) + b"\n"
        self._hash.update(data)
        self._file.write(data)
