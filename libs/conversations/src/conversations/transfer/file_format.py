"""Conversations as a file of JSON lines, to be moved to another installation. Pure, but for the file.

A header line; a line an event, as its bytes are stored, each conversation's together and in their order; an
end line that counts them and holds the SHA-256 of every byte before it.
"""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, BinaryIO

import msgspec

from contracts import events, ids, wire
from conversations.errors import ConversationsError, UnreadableEvent
from conversations.event_store import mapper
from conversations.event_store.log import LogEntry

FORMAT = "agentchat.conversations"
FORMAT_VERSION = 1
MOST_LINE_BYTES = 64 * 1024 * 1024


def settled(stored: Sequence[events.Event]) -> int:
    """How many of a conversation's events, from its first on, are there when no run is under way."""
    return max(settled_counts(stored), default=0)


def settled_counts(stored: Sequence[events.Event]) -> Iterator[int]:
    """After how many of its events no run is under way, each such count in order."""
    open_trace = None
    for count, event in enumerate(stored, start=1):
        if isinstance(event, events.MessageSaved) and event.role == "user":
            open_trace = event.trace_id
        elif isinstance(event, events.RunEnd) and event.trace_id == open_trace:
            open_trace = None
        if open_trace is None:
            yield count


class UnfitFile(ConversationsError):  # noqa: N818 - it is the file that is so
    """A file that is not to be imported; the text begins with the number of the line at fault."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line:,}: {reason}")
        self.line = line


class FileHeader(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="header"):
    format: str
    version: int
    exported_at: str


class EventLine(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="event", forbid_unknown_fields=True
):
    """One event; `event` are its stored bytes, whose `type` is its topic."""

    conversation_id: str
    version: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    event: msgspec.Raw


class End(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="end", forbid_unknown_fields=True):
    conversations: int
    events: int
    sha256: str


class FileEvent(msgspec.Struct, frozen=True):
    version: int
    topic: str
    state: bytes


class Carried(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation of a file, `line` the first of its lines; `agents` are those that its messages name."""

    line: int
    conversation_id: str
    account_id: str
    agents: frozenset[str]
    stored: tuple[FileEvent, ...]


class FileWriter:
    """Writes a file. One without `end` is no whole file, and no reader takes it."""

    def __init__(self, file: BinaryIO, *, exported_at: str) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._conversations = self._events = 0
        self._write(FileHeader(format=FORMAT, version=FORMAT_VERSION, exported_at=exported_at))

    def add(self, entries: Sequence[LogEntry]) -> None:
        for entry in entries:
            state = msgspec.Raw(entry.state)
            self._write(EventLine(conversation_id=entry.conversation_id, version=entry.version, event=state))
        self._conversations += 1
        self._events += len(entries)

    def end(self) -> None:
        digest = self._hash.hexdigest()
        self._write(End(conversations=self._conversations, events=self._events, sha256=digest))

    def _write(self, line: FileHeader | EventLine | End) -> None:
        data = wire.encode(line) + b"\n"
        self._hash.update(data)
        self._file.write(data)


def read(file: BinaryIO) -> Iterator[Carried]:
    """The conversations of a file, from its beginning to its end line. Raises UnfitFile, at any of them."""
    lines = _lines(file)
    seen: set[str] = set()
    number, digest, count = 1, "", 0
    current: list[tuple[int, EventLine]] = []
    for number, line, digest in lines:
        match line:
            case EventLine():
                count += 1
                if current and current[0][1].conversation_id != line.conversation_id:
                    yield _carried(current, seen)
                    current = []
                current.append((number, line))
            case End():
                if current:
                    yield _carried(current, seen)
                if (line.conversations, line.events, line.sha256) != (len(seen), count, digest):
                    raise UnfitFile(number, "what is above is not what was exported: lines were changed")
                for number, _, _ in lines:
                    raise UnfitFile(number, "something follows the end line")
                return
    raise UnfitFile(number + 1, "the end line is missing: the file was cut short")


def _lines(file: BinaryIO) -> Iterator[tuple[int, EventLine | End, str]]:
    """The lines after the header: their numbers, and the SHA-256 of all that is above each end line."""
    digest = hashlib.sha256()
    for number in range(1, 2**62):
        data = file.readline(MOST_LINE_BYTES)
        if not data:
            if number == 1:
                raise UnfitFile(1, "the file is empty")
            return
        line = _decoded(number, data)
        if isinstance(line, FileHeader) != (number == 1):
            raise UnfitFile(
                number, "the file does not begin with a header" if number == 1 else "a new header"
            )
        if isinstance(line, FileHeader):
            _check_header(line)
        else:
            yield number, line, digest.hexdigest() if isinstance(line, End) else ""
        digest.update(data)


def _decoded(number: int, data: bytes) -> FileHeader | EventLine | End:
    if not data.endswith(b"\n"):
        raise UnfitFile(number, "the line is cut short" if len(data) < MOST_LINE_BYTES else "it is too long")
    try:
        return _line_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        what = "this is no export of conversations" if number == 1 else "not a line of an export"
        raise UnfitFile(number, f"{what} ({error})") from None


def _check_header(header: FileHeader) -> None:
    if header.format != FORMAT:
        raise UnfitFile(1, f"the format is {header.format!r}, not {FORMAT!r}")
    if header.version != FORMAT_VERSION:
        raise UnfitFile(1, f"the format's version is {header.version}; this program reads {FORMAT_VERSION}")


def _carried(lines: Sequence[tuple[int, EventLine]], seen: set[str]) -> Carried:
    """The conversation of these lines. Raises UnfitFile."""
    first, conversation_id = lines[0][0], lines[0][1].conversation_id
    if not ids.is_uuid(conversation_id):
        raise UnfitFile(first, f"{conversation_id!r} is no conversation's id")
    if conversation_id in seen:
        raise UnfitFile(first, f"conversation {conversation_id} was above already")
    seen.add(conversation_id)
    read_events = [_event_of(number, line) for number, line in lines]
    beginning = read_events[0]
    erased = isinstance(beginning, events.ConversationErased)
    if erased and len(lines) > 1:
        raise UnfitFile(lines[1][0], "nothing comes after an erasure")
    expected = lines[0][1].version if erased else 1
    for number, line in lines:
        if line.version != expected:
            raise UnfitFile(number, f"version {expected} should be here, not {line.version}")
        expected += 1
    if not isinstance(beginning, events.ConversationStarted | events.ConversationErased):
        raise UnfitFile(first, "a conversation begins with conversation_started")
    for (number, _), event in zip(lines[1:], read_events[1:], strict=True):
        if isinstance(event, events.ConversationStarted | events.ConversationErased):
            raise UnfitFile(number, f"{events.tag_of(event)} cannot be here")
    if settled(read_events) != len(read_events):
        raise UnfitFile(lines[-1][0], "the last run has no end")
    return Carried(
        line=first,
        conversation_id=conversation_id,
        account_id=beginning.account_id,
        agents=frozenset(event.agent_id for event in read_events if isinstance(event, events.MessageSaved)),
        stored=tuple(_stored(line) for _, line in lines),
    )


def _event_of(number: int, line: EventLine) -> events.Event:
    try:
        stored = _stored(line)
        event = mapper.event_of(stored.topic, stored.state)
        time = datetime.fromisoformat(event.at)
    except (msgspec.DecodeError, UnreadableEvent) as error:
        raise UnfitFile(number, f"not an event ({error})") from None
    except ValueError:
        time = None
    if time is None or time.tzinfo is None or not ids.is_trace_id(event.trace_id):
        raise UnfitFile(number, "not an event (its trace_id or its time is none)")
    if isinstance(event, events.RunStarted) and not _is_indexable(stored.state):
        raise UnfitFile(number, "not an event (it holds the character NUL)")
    return event


def _is_indexable(state: bytes) -> bool:
    """Whether Postgres takes it for JSON whose texts are texts: `finding` has it look into run_started."""
    return b"\\u0000" not in state.replace(b"\\\\", b"")


def _stored(line: EventLine) -> FileEvent:
    state = bytes(line.event)
    return FileEvent(line.version, mapper.topic_in(state), state)


_line_decoder: msgspec.json.Decoder[FileHeader | EventLine | End] = msgspec.json.Decoder(
    FileHeader | EventLine | End
)
