"""Draw a run as bars on an axis of time.

Model calls, tools, approvals, retrieval, summaries, takeovers. Made only from the stored events of the run.
The current activity of a run in progress is an open bar.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal

import msgspec
from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.conversations.aggregate import next_step
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.model_calls import RecordedCall, find_model_call
from agentchat.conversations.event_store.event_log import LogEntry

BarKind = Literal[
    "model",
    "tool",
    "approval",
    "elicitation",
    "client",
    "retrieval",
    "compaction",
    "takeover",
    "lost",
    "message",
]
"""`client`: a tool that the client runs. `message`: another message that steers or interrupts the run."""

BarState = Literal["done", "failed", "running", "waiting", "cancelled"]

AXIS = 1000
"""Units of the axis."""

_LONG_WAIT = 0.5
_SHOWN_WAIT = 0.2
"""A wait for people that is longer than this share of the rest of the run is drawn as that share."""


class TimelineBar(msgspec.Struct, frozen=True, kw_only=True):
    """One activity of a run. `began` and `ended` are seconds since the request.

    `ended` is None while it lasts. `version` is that of the event that ends it, or of the one that began it.
    `sent` is that of the event that requested it. `note` describes the outcome in words of the log: a stop
    reason, who decided. `call` is the model call whose tokens it took.
    """

    version: int
    sent: int
    kind: BarKind
    label: str
    began: float
    ended: float | None
    state: BarState = "done"
    call: RecordedCall | None = None
    round: int | None = None
    note: str = ""

    @property
    def key(self) -> str:
        """The bar's id among those of its run."""
        return f"{self.kind}-{self.version}"

    def measure_seconds(self, now: float) -> float:
        """Return its length in seconds."""
        return max(0.0, (now if self.ended is None else self.ended) - self.began)


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """Bars in the order they began; `seconds` from the request to the run's end, or to now."""

    bars: tuple[TimelineBar, ...]
    seconds: float
    ticks: tuple["_Stretch", ...] = ()

    def place(self, seconds: float) -> float:
        """Return the place of a moment on the axis, in units of AXIS."""
        drawn = sum(each.drawn for each in self.ticks) or 1.0
        passed = 0.0
        for each in self.ticks:
            inside = min(max(seconds - each.began, 0.0), each.length)
            passed += inside * (each.drawn / each.length if each.length else 0.0)
        return round(AXIS * passed / drawn, 1)

    @property
    def breaks(self) -> tuple[float, ...]:
        """The middles of the waits that are drawn shorter than they were."""
        return tuple(
            self.place(each.began + each.length / 2) for each in self.ticks if each.drawn < each.length
        )


class _Stretch(msgspec.Struct, frozen=True):
    """A part of the axis: `length` seconds from `began`, drawn as `drawn`."""

    began: float
    length: float
    drawn: float


class _Moment(msgspec.Struct, frozen=True):
    """An event of the run, its version, and the seconds from the request to it."""

    version: int
    event: events.Event
    after: float


def build_timeline(run: Run, entries: Iterable[LogEntry], now: str) -> Timeline:
    """Build the timeline of a run from its entries; open bars end at `now` (ISO 8601 UTC).

    Raises UnreadableEvent.
    """
    began = datetime.fromisoformat(run.requested_at)

    def get_offset(at: str) -> float:
        return max(0.0, (datetime.fromisoformat(at) - began).total_seconds())

    moments = [
        _Moment(entry.version, entry.event, get_offset(entry.event.at))
        for entry in entries
        if entry.event.trace_id == run.trace_id
    ]
    bars = sorted(
        [*_list_finished_bars(moments), *_list_open_bars(run, moments)],
        key=lambda bar: (bar.began, bar.version),
    )
    seconds = get_offset(run.ended_at or now)
    return Timeline(bars=tuple(bars), seconds=seconds, ticks=tuple(_build_axis(bars, seconds)))


def _list_finished_bars(moments: Sequence[_Moment]) -> Iterator[TimelineBar]:
    """Yield each bar that an event ends, and those of a single moment."""
    calls: dict[str, _Moment] = {}
    asked: dict[str, _Moment] = {}
    decided = False  # since the last attempt started
    before: _Moment | None = None
    for moment in moments:
        before = before or moment
        match moment.event:
            case events.RunStarted() as event if event.attempt > 1:
                yield from _list_takeover_bars(before, moment, event, decided=decided)
                decided = False
            case events.ToolCalled() as event:
                calls[event.call_id] = moment
            case events.ToolReturned() as event if event.call_id in calls:
                yield _build_tool_bar(calls.pop(event.call_id), moment, event)
            case events.ApprovalRequested() | events.ElicitationRequested() as event:
                asked[event.approval_id] = moment
            case events.ApprovalDecided(is_client=True):
                decided = True
            case events.ApprovalDecided() as event if event.approval_id in asked:
                decided = True
                yield _build_decision_bar(asked.pop(event.approval_id), moment, event)
            case _:
                yield from _list_bars_since(before, moment)
        if not isinstance(moment.event, events.Delta | events.MessageReceived):
            before = moment


def _list_bars_since(before: _Moment, moment: _Moment) -> Iterator[TimelineBar]:
    """Yield the bar of the activity since the event before, if this event ends it."""
    match moment.event:
        case events.SourcesRetrieved() as event:
            bar = _build_bar(before, moment, "retrieval", "retrieve")
            yield replace(bar, note=f"{len(event.sources)} found")
        case events.ContextCompacted() as event:
            bar = _build_bar(before, moment, "compaction", "summary")
            note = f"of all up to event {event.through_version}"
            yield replace(bar, call=find_model_call(event), note=note)
        case events.ModelReplied() as event:
            bar = _build_bar(before, moment, "model", f"model {event.round}")
            yield replace(bar, call=find_model_call(event), round=event.round, note=event.stop_reason)
        case events.WarningRaised(code="model_changed") as event:
            bar = _build_bar(before, moment, "lost", "model changed")
            note = f"{event.message} It is {event.subject}."
            yield replace(bar, call=find_model_call(event), note=note, state="failed")
        case events.WarningRaised() as event:
            bar = _build_bar(moment, moment, "lost", "warning")
            yield replace(bar, note=event.message, state="failed")
        case events.MessageSaved(steers=str()) as event:
            yield replace(_build_bar(moment, moment, "message", "steered"), note=event.content)
        case events.RunCancelled(interrupted_by=str()) as event:
            bar = _build_bar(moment, moment, "message", "interrupted")
            yield replace(bar, note=f"by the message of {event.interrupted_by}", state="cancelled")
        case events.ReplyLost() as event:
            bar = _build_bar(before, moment, "lost", "given up")
            note = "the worker stopped; another one repeats it"
            yield replace(bar, call=find_model_call(event), round=event.round, note=note, state="failed")
        case _:
            pass


def _build_bar(before: _Moment, moment: _Moment, kind: BarKind, label: str) -> TimelineBar:
    return TimelineBar(
        version=moment.version,
        sent=before.version,
        kind=kind,
        label=label,
        began=before.after,
        ended=moment.after,
    )


def _list_takeover_bars(
    before: _Moment, moment: _Moment, event: events.RunStarted, *, decided: bool
) -> Iterator[TimelineBar]:
    """Yield the bar of a resumed run, and that of the lost worker unless the run waited for people.

    Nothing for a run that interrupts another: the other's worker stores its start for its own worker.
    """
    if isinstance(before.event, events.RunStarted) and before.event.worker == event.worker:
        return
    if not decided and not isinstance(before.event, events.ReplyLost):
        note = "the worker was lost; another one repeats it"
        yield replace(_build_bar(before, moment, "lost", "lost"), state="failed", note=note)
    label = "resumed" if decided else f"attempt {event.attempt}"
    yield replace(_build_bar(moment, moment, "takeover", label), note=event.worker or "")


def _build_tool_bar(called: _Moment, returned: _Moment, event: events.ToolReturned) -> TimelineBar:
    assert isinstance(called.event, events.ToolCalled)
    return TimelineBar(
        version=returned.version,
        sent=called.version,
        kind="client" if called.event.is_client else "tool",
        label=called.event.name,
        began=max(called.after, returned.after - event.ms / 1000),
        ended=returned.after,
        state="failed" if event.is_error else "done",
        round=event.round,
        note="error" if event.is_error else "",
    )


_DECIDED: dict[str, BarState] = {"approved": "done", "denied": "failed"}


def _build_decision_bar(asked: _Moment, moment: _Moment, event: events.ApprovalDecided) -> TimelineBar:
    request = asked.event
    assert isinstance(request, events.ApprovalRequested | events.ElicitationRequested)
    return TimelineBar(
        version=moment.version,
        sent=asked.version,
        kind="elicitation" if isinstance(request, events.ElicitationRequested) else "approval",
        label=request.tool,
        began=asked.after,
        ended=moment.after,
        state=_DECIDED.get(event.decision, "cancelled"),
        round=request.round,
        note=_describe_decision(event),
    )


def _describe_decision(event: events.ApprovalDecided) -> str:
    """Return the decision and who took it; "" if the approval ended with its run, as the state says."""
    if event.by.kind == "service":
        return "" if event.decision == "cancelled" else event.decision
    return f"{event.decision} by {event.on_behalf_of or event.by.id}"


_STOPPED: dict[str, BarState] = {"running": "running", "failed": "failed", "cancelled": "cancelled"}


def _list_open_bars(run: Run, moments: Sequence[_Moment]) -> Iterator[TimelineBar]:
    """Yield the bars of the current activity; of the last one for a run that ended without a reply."""
    worked = [each for each in moments if not isinstance(each.event, _NO_WORK)]
    if not worked or run.state == "completed":
        return
    last, state = worked[-1], _STOPPED[run.state]
    ended = None if run.state == "running" else moments[-1].after
    calls = {each.call_id for round_ in run.rounds for each in round_.calls if each.output is None}
    pending = {each.id for call in run.pending for each in call.pending}
    for moment in moments:
        match moment.event:
            case events.ToolCalled(needs_approval=False, is_client=False) as call if call.call_id in calls:
                yield _build_open_bar(moment, "tool", call.name, ended, state, call.round)
            case events.ClientToolRequested() as asked if asked.approval_id in pending:
                waits = _build_open_bar(moment, "client", asked.tool, ended, "waiting", asked.round)
                yield replace(waits, note="waits for the client")
            case events.ApprovalRequested() as asked if asked.approval_id in pending:
                yield _build_open_bar(moment, "approval", asked.tool, ended, "waiting", asked.round)
            case events.ElicitationRequested() as asked if asked.approval_id in pending:
                yield _build_open_bar(moment, "elicitation", asked.tool, ended, "waiting", asked.round)
            case _:
                pass
    match next_step.decide_next_step(replace(run, state="running")):
        case next_step.CallModel(round=number):
            bar = _build_open_bar(last, "model", f"model {number}", ended, state, number)
            yield replace(bar, call=find_model_call(moments[-1].event))
        case next_step.Retrieve():
            yield _build_open_bar(last, "retrieval", "retrieve", ended, state, None)
        case _:
            pass


_NO_WORK = (events.Delta, events.RunCompleted, events.RunFailed, events.RunCancelled)


def _build_open_bar(
    moment: _Moment, kind: BarKind, label: str, ended: float | None, state: BarState, number: int | None
) -> TimelineBar:
    return TimelineBar(
        version=moment.version,
        sent=moment.version,
        kind=kind,
        label=label,
        began=moment.after,
        ended=ended,
        state=state,
        round=number,
    )


def _build_axis(bars: Iterable[TimelineBar], seconds: float) -> Iterator[_Stretch]:
    """Yield the stretches of the axis; only a long wait for people is drawn short."""
    waits = list(_find_waits(list(bars), seconds))
    worked = seconds - sum(end - begin for begin, end in waits)
    passed = 0.0
    for begin, end in waits:
        yield _Stretch(passed, begin - passed, begin - passed)
        length = end - begin
        yield _Stretch(begin, length, worked * _SHOWN_WAIT if length > worked * _LONG_WAIT > 0 else length)
        passed = end
    yield _Stretch(passed, seconds - passed, seconds - passed)


_WAITS: tuple[BarKind, ...] = ("approval", "elicitation", "client")


def _find_waits(bars: list[TimelineBar], seconds: float) -> Iterator[tuple[float, float]]:
    busy = sorted(
        (bar.began, seconds if bar.ended is None else bar.ended) for bar in bars if bar.kind not in _WAITS
    )
    waits = sorted(
        (bar.began, seconds if bar.ended is None else bar.ended) for bar in bars if bar.kind in _WAITS
    )
    free = 0.0
    for begin, end in waits:
        begin = max(begin, free)
        for start, stop in busy:
            if stop <= begin or start >= end or stop == start:
                continue
            if start > begin:
                yield begin, start
            begin = max(begin, stop)
        if begin < end:
            yield begin, end
        free = max(free, end)
