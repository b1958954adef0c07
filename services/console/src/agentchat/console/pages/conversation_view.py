"""Build the view of a conversation at one event, with one of its runs as a timeline."""

import hashlib
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from agentchat.console.shared.template_filters import format_json
from agentchat.contracts import events
from agentchat.conversations.aggregate.conversation import Conversation, Run, fold
from agentchat.conversations.aggregate.model_messages import build_round_messages
from agentchat.conversations.aggregate.rounds import extract_reasoning
from agentchat.conversations.errors import UnreadableEvent
from agentchat.conversations.event_store.event_log import Log, LogEntry, run_in_thread_if_large
from agentchat.conversations.postgres_sessions import read_server_time
from agentchat.conversations.projections.conversations_table import TITLE_LENGTH
from agentchat.conversations.queries.find_by_trace import find_run
from agentchat.conversations.queries.find_runs import RunFilter, find_runs
from agentchat.conversations.queries.read_thread import find_thread
from agentchat.conversations.queries.run_timeline import Timeline, TimelineBar, build_timeline
from agentchat.directory.display_names import DisplayNames, load_display_names
from agentchat.runtime.postgres import Pool

WINDOW = 1_000
"""The most events that a page is built from."""

EventKind = Literal["message", "model", "tool", "person", "end", "other"]
_KINDS: dict[str, EventKind] = {
    "message_saved": "message",
    "model_replied": "model",
    "tool_called": "tool",
    "tool_returned": "tool",
    "approval_requested": "person",
    "elicitation_requested": "person",
    "approval_decided": "person",
    "feedback_given": "person",
    "feedback_withdrawn": "person",
    "run_completed": "end",
    "run_failed": "end",
    "run_cancelled": "end",
}


class ErasedConversation(msgspec.Struct, frozen=True):
    """A conversation of which only the erasure is left in the log."""

    at: str
    trace_id: str


class ConversationView(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation at event `version`; `head` is the version of its last event.

    The page is built from the events after `first` to `last`, so the first run in `conversation` may be
    incomplete. `run` is the run whose timeline is shown, if any.
    """

    id: str
    account_id: str
    title: str
    head: int
    version: int
    first: int
    last: int
    conversation: Conversation
    entries: tuple[LogEntry, ...]
    run: Run | None
    timeline: Timeline | None
    cost: float | None
    names: DisplayNames

    @property
    def at(self) -> LogEntry | None:
        """The event at which the conversation is shown."""
        return next((each for each in reversed(self.entries) if each.version == self.version), None)

    @property
    def is_now(self) -> bool:
        """True if the conversation is shown at its last event."""
        return self.version == self.head

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs on the page."""
        return self.conversation.runs

    @property
    def place(self) -> int:
        """The number of the shown run, from 1; 0 for none."""
        return next((place for place, each in enumerate(self.runs, start=1) if each is self.run), 0)

    @property
    def previous(self) -> Run | None:
        """The run before the shown one."""
        return self.runs[self.place - 2] if self.place > 1 else None

    @property
    def next(self) -> Run | None:
        """The run after the shown one."""
        return self.runs[self.place] if 0 < self.place < len(self.runs) else None

    @property
    def is_live(self) -> bool:
        """True if a run is under way and the last event is shown."""
        return self.is_now and self.conversation.active is not None

    @property
    def run_entries(self) -> tuple[LogEntry, ...]:
        """The events of the shown run."""
        if self.run is None:
            return ()
        mine = (each for each in self.entries if each.version <= self.version)
        return tuple(each for each in mine if _get_trace_id(each) == self.run.trace_id)

    def list_dots(self) -> list[tuple[int, float, EventKind]]:
        """Return version, position (0 to 1000 along the slider) and kind of the page's events."""
        span = max(1, self.head - 1)
        return [
            (each.version, round(1000 * (each.version - 1) / span, 1), get_event_kind(each.topic))
            for each in self.entries
        ]


def get_event_kind(topic: str) -> EventKind:
    """Return the kind of an event, which is its colour on the page."""
    return _KINDS.get(topic.partition(".")[0], "other")


def _get_trace_id(entry: LogEntry) -> str | None:
    try:
        return entry.event.trace_id
    except UnreadableEvent:
        return None


async def load_view(
    pool: Pool, conversation_id: str, at: int | None = None, trace_id: str | None = None
) -> ConversationView | ErasedConversation | None:
    """Return a conversation at version `at`, or now; None if it is unknown.

    Raises DatabaseUnavailable. Without `trace_id`, the shown run is that of the event at `at`, or the last
    one.
    """
    log = Log(pool)
    thread = await find_thread(pool, conversation_id)
    if thread is None:
        return await _find_erasure(log, conversation_id)
    version = min(max(1, thread.version if at is None else at), thread.version)
    first = await _choose_first_version(pool, version, thread.version, None if at is not None else trace_id)
    last = min(thread.version, first + WINDOW)
    entries = await log.read_rows(conversation_id, first, last)
    if at is None and last < thread.version:
        version = last

    def fold_until(page: list[LogEntry]) -> Conversation:
        return fold(conversation_id, _skip_unreadable(each for each in page if each.version <= version))

    conversation = await run_in_thread_if_large(fold_until, entries)
    run = _choose_run(conversation, entries, version, trace_id)
    now = (
        entries[-1].event.at
        if version < thread.version or not conversation.active
        else await read_server_time(pool)
    )
    until = [each for each in entries if each.version <= version]
    if version < thread.version and until:
        now = until[-1].event.at
    return ConversationView(
        id=conversation_id,
        account_id=thread.account_id,
        title=_build_title(conversation),
        head=thread.version,
        version=version,
        first=first,
        last=last,
        conversation=conversation,
        entries=tuple(entries),
        run=run,
        timeline=None if run is None else build_timeline(run, until, now),
        cost=await _load_cost(pool, run),
        names=await load_display_names(
            pool, [thread.account_id], {each.agent_id for each in conversation.runs}
        ),
    )


async def _load_cost(pool: Pool, run: Run | None) -> float | None:
    """Return the cost of a run that has ended, as the ledger has it."""
    if run is None or run.state == "running":
        return None
    found = (await find_runs(pool, RunFilter(trace_id=run.trace_id), limit=1)).rows
    return found[0].cost if found else None


async def _find_erasure(log: Log, conversation_id: str) -> ErasedConversation | None:
    rows = await log.read_rows(conversation_id)
    event = rows[-1].event if rows else None
    return (
        ErasedConversation(event.at, event.trace_id) if isinstance(event, events.ConversationErased) else None
    )


async def _choose_first_version(pool: Pool, version: int, head: int, trace_id: str | None) -> int:
    """Choose the version after which the page starts: the shown event or run is in its middle."""
    if head <= WINDOW:
        return 0
    if trace_id is not None:
        found = await find_run(pool, trace_id)
        if found is not None and found.begun_at is not None:
            version = found.begun_at
    return max(0, min(version - WINDOW // 2, head - WINDOW))


def _skip_unreadable(entries: Any) -> Any:
    """Yield the events of entries, without those of a newer release."""
    for entry in entries:
        try:
            yield entry.event
        except UnreadableEvent:
            continue


def _choose_run(
    conversation: Conversation, entries: Sequence[LogEntry], version: int, trace_id: str | None
) -> Run | None:
    if trace_id is not None and (run := conversation.run(trace_id)) is not None:
        return run
    for entry in reversed(entries):
        if entry.version <= version and (run := conversation.run(_get_trace_id(entry) or "")) is not None:
            return run
    return conversation.runs[-1] if conversation.runs else None


def _build_title(conversation: Conversation) -> str:
    first = next((each.user_text for each in conversation.runs), "")
    return conversation.title or first[:TITLE_LENGTH] or "Conversation"


class SentOrReceived(msgspec.Struct, frozen=True):
    """A text that was sent or received."""

    title: str
    text: str
    note: str = ""
    is_folded: bool = False

    @property
    def sha256(self) -> str:
        """The SHA-256 of the text in UTF-8."""
        return hashlib.sha256(self.text.encode()).hexdigest()


class BarDetail(msgspec.Struct, frozen=True, kw_only=True):
    """The details of a bar: what was sent and received, and the event that stores it."""

    bar: TimelineBar
    sent: tuple[SentOrReceived, ...]
    came: tuple[SentOrReceived, ...]
    stored: LogEntry | None


async def load_detail(
    pool: Pool, view: ConversationView, key: str, system: "SystemPrompt"
) -> BarDetail | None:
    """Return the details of a bar of the shown run; None if there is no such bar.

    Raises:
        DatabaseUnavailable: If Postgres does not answer.
    """
    if view.run is None or view.timeline is None:
        return None
    bar = next((each for each in view.timeline.bars if each.key == key), None)
    if bar is None:
        return None
    by_version = {each.version: each for each in view.entries}
    stored = by_version.get(bar.version)
    sent: list[SentOrReceived] = []
    came: list[SentOrReceived] = []
    if bar.kind == "model" and bar.round is not None:
        sent += await _list_model_input(pool, view, bar, system)
    for entry in (by_version.get(bar.sent), stored):
        if entry is not None:
            _add_pieces(bar, entry.event, sent, came)
    return BarDetail(
        bar=bar,
        sent=tuple(dict.fromkeys(sent)),
        came=tuple(dict.fromkeys(came)),
        stored=stored,
    )


class SystemPrompt(msgspec.Struct, frozen=True):
    """A run's system prompt, from the agent's version or from the request."""

    text: str | None
    source: str


async def _list_model_input(
    pool: Pool, view: ConversationView, bar: TimelineBar, system: SystemPrompt
) -> list[SentOrReceived]:
    assert view.run is not None
    assert bar.round is not None
    past = fold(view.id, await Log(pool).read_events(view.id, until_version=bar.version))
    run = past.run(view.run.trace_id)
    pieces = []
    if system.text is not None:
        text = "\n\n".join(filter(None, (system.text, view.run.instructions)))
        pieces.append(SentOrReceived("System prompt", text, system.source))
    if run is not None:
        shown = build_round_messages(past, run, bar.round)
        pieces.append(SentOrReceived("Messages", format_json(shown), "rebuilt from the log"))
    return pieces


def _add_pieces(
    bar: TimelineBar, event: events.Event, sent: list[SentOrReceived], came: list[SentOrReceived]
) -> None:
    match event:
        case events.ModelReplied() if bar.kind == "model":
            if reasoning := extract_reasoning(event.blocks):
                came.append(SentOrReceived("Reasoning", reasoning, is_folded=True))
            came.append(SentOrReceived("Reply", format_json(event.blocks), event.stop_reason))
        case events.ToolCalled() if bar.kind in ("tool", "client"):
            sent.append(SentOrReceived("Input", format_json(event.input), "written by the model"))
        case events.ToolReturned() if bar.kind in ("tool", "client"):
            came.append(
                SentOrReceived("Output", event.output, "error" if event.is_error else f"{event.ms:,} ms")
            )
        case events.ApprovalRequested():
            sent.append(
                SentOrReceived("Asked", f"{event.server} · {event.tool}", f"until {event.expires_at}")
            )
        case events.ElicitationRequested():
            sent.append(
                SentOrReceived("Asked", event.asked.message, f"by {event.tool}, until {event.expires_at}")
            )
        case events.ApprovalDecided():
            by = "" if event.by.kind == "service" else f"by {event.on_behalf_of or event.by.id}"
            came.append(SentOrReceived("Decision", event.decision, by))
            if event.reason:
                came.append(SentOrReceived("Reason", event.reason))
            if event.input is not None:
                came.append(SentOrReceived("Input", format_json(event.input), "edited by that person"))
        case events.SourcesRetrieved():
            came.append(SentOrReceived("Sources", format_json(event.sources), "best match first"))
        case events.ContextCompacted():
            came.append(SentOrReceived("Summary", event.summary, event.model))
        case _:
            pass
