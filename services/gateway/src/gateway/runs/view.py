"""The live view of one run: frames in, updates for a reader out. Pure.

Frames may be late, doubled, from a stopped worker, or missing. What is missing is requested (`wants_repair`);
what is nowhere any more is taken from the saved message: late, never wrong (docs/change/design.md 5).
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from contracts import frames
from contracts.updates import (
    CANCELLED,
    INTERRUPTED,
    Broken,
    Finished,
    NextRound,
    RetrievedSources,
    Started,
    Text,
    ToolEnded,
    ToolStarted,
    Update,
)
from contracts.values import Cut, Message, Source, Usage
from conversations.aggregate import approvals
from conversations.aggregate.canonical_stream import end_of, replayed
from conversations.aggregate.conversation import Run
from conversations.aggregate.rounds import Round
from gateway.runs.progress import TextProgress, ToolProgress
from gateway.runs.run_request import STREAM, ViewKind

_HELD_FRAMES = 20_000
_GONE = Broken("conversation_not_found", "There is no such conversation.")


class FramePosition(msgspec.Struct):
    """Where a view is in the frames of a run's attempts.

    held: Frames of the attempt after a gap, by their numbers.
    placed_attempt: The attempt whose offsets count: its beginning is known.
    misses_text: Text was missed, and what follows it waits in `later` until the log, the offset of a later
        piece, or the saved message shows where it belongs.
    """

    attempt: int = 0
    next_seq: int = 1
    held: dict[int, frames.Frame] = {}
    placed_attempt: int = 1
    misses_text: bool = False
    later: list[frames.Delta] = []

    def begin_attempt(self, attempt: int) -> None:
        self.attempt, self.next_seq = attempt, 1
        self.held.clear()
        self.later.clear()

    def is_after(self, other: "FramePosition") -> bool:
        return (self.attempt, self.next_seq) > (other.attempt, other.next_seq)


class View:
    """State of the view. `wants_repair`: frames are missing; `wants_log`: only the log has the rest.

    A view that is not `streaming` gives the end and no Text, so that no text can be wrong. With `outputs` a
    ToolEnded has its output, which only the log has. With `calls_at_end` Finished has all calls with their
    outputs, for which the end waits. `publication`: how often the request was published by now; what became
    of earlier ones does not count.

    `waiting`: the request is in line. `refused`: a worker has ended it before its start, and it never begins.
    `paused`: its attempt has ended to wait for a person.
    """

    def __init__(self, kind: ViewKind = STREAM, *, publication: int = 1) -> None:
        self.waiting = False
        self.started = False
        self.ended = False
        self.refused = False
        self.paused = False
        self.wants_repair = False
        self.wants_log = False
        self._kind = kind
        self._publication = publication
        self._at = FramePosition()
        self._text = TextProgress()
        self._tools = ToolProgress()
        self._round = 1
        self._sourced = False
        self._completed: frames.Completed | None = None  # waits for tool outputs out of the log

    @property
    def misses_text(self) -> bool:
        return self._at.misses_text

    def feed(self, frame: frames.Frame) -> list[Update]:
        """The updates that one more frame brings."""
        updates: list[Update] = []
        if self.ended or (frame.seq and frame.attempt < self._at.attempt):
            return updates
        match frame:
            case frames.Delta() if frame.seq:
                self._take_numbered(frame, updates)
            case frames.Delta():
                self._take_repeated(frame, updates)
            case frames.Completed() | frames.Failed():
                self._start(updates)
                self._apply(frame, updates)
            case frames.Paused() if not frame.seq:
                self.paused = self.wants_log = True
            case frames.Queued() | frames.Refused() if self.started or self._is_earlier(frame):
                pass
            case frames.Queued():
                self.waiting = True
            case frames.Refused():
                self.refused = True
                self._end(Broken(frame.code, frame.message, approvals=frame.approvals), updates)
            case _ if frame.seq:
                self._take_numbered(frame, updates)
        return updates

    def feed_all(self, found: Iterable[frames.Frame]) -> list[Update]:
        """The updates of the frames that TRACES keeps of the trace, from its first one on.

        What is missing even there is lost: the view continues without it.
        """
        updates: list[Update] = []
        self.wants_repair = False
        if self.ended:
            return updates
        known = View(self._kind._replace(outputs=False), publication=self._publication)
        replayed = [update for frame in found for update in known.feed(frame)]
        known._skip_gap(replayed)
        if self._text.begins("".join(update.text for update in replayed if isinstance(update, Text))):
            self._adopt(known, replayed, updates)
        self._skip_gap(updates)
        return updates

    def feed_log(self, run: Run | None) -> list[Update]:
        """The updates that the log brings: the acceptance, text that was missed, the run's end.

        A run has begun in the log before anybody gets its frames. If it is not there, the log has lost it.
        """
        updates: list[Update] = []
        if self.ended:
            return updates
        if run is None:
            if self.started:
                self._end(INTERRUPTED, updates)
            return updates
        if (run.state != "running" or run.pending) and not self.started:
            return self._replay(run)
        self._start(updates)
        self._take_sources(run.sources, updates)
        follows = self._text.begins(run.text)
        self._take_rounds(run.rounds, updates, texts=follows and (self._at.misses_text or bool(run.pending)))
        if run.state == "completed" and run.reply is not None:
            self._finish(run.reply, run.usage, run.cut, updates)
        elif run.state != "running":
            self._end(end_of(run), updates)
        elif run.pending:
            self._end(approvals.wait_of(run) if follows else INTERRUPTED, updates)
        elif self._at.misses_text and follows:
            self._place_later(updates)
        self.wants_log = (self._completed is not None or bool(self._tools.owed)) and not self.ended
        return updates

    def _take_rounds(self, rounds: Iterable[Round], updates: list[Update], *, texts: bool) -> None:
        """The calls of recorded rounds, and their `texts`, as far as they are new.

        A round after text that is still missing begins with its own text.
        """
        before = 0
        for each in rounds:
            if texts:
                self._add_text(each.text[max(0, self._text.length - before) :], updates, each.number)
            if self._text.length == before:
                self._begin_round(each.number, updates)
            before += len(each.text)
            for call in each.calls:
                self._call(call.call_id, call.name, call.input, updates)
                if call.output is not None:
                    self._tools.returned(call.call_id, call.ran_input, call.output)
                    self._return(call.call_id, call.is_error, call.output, updates)

    def feed_erased(self) -> list[Update]:
        """The conversation was erased: what ran in it was cancelled before."""
        updates: list[Update] = []
        if not self.ended:
            self._end(CANCELLED if self.started else _GONE, updates)
        return updates

    def _replay(self, run: Run) -> list[Update]:
        """All of a run that ended, or began to wait, before this view had anything of it."""
        self.started = self.ended = True
        self.wants_repair = self.wants_log = False
        updates = [update for update in replayed(run) if self._kind.streaming or not isinstance(update, Text)]
        return [*updates, approvals.wait_of(run)] if run.pending else updates

    def _take_numbered(self, frame: frames.Frame, updates: list[Update]) -> None:
        if frame.attempt > self._at.attempt:
            self._at.begin_attempt(frame.attempt)
            self.paused = False
        if frame.seq > self._at.next_seq and self._kind.streaming:
            if len(self._at.held) < _HELD_FRAMES:
                self._at.held[frame.seq] = frame
            self.wants_repair = True
        elif frame.seq >= self._at.next_seq:
            self._apply_in_turn(frame, updates)
            self._release_held(updates)

    def _take_repeated(self, frame: frames.Delta, updates: list[Update]) -> None:
        """Text that was sent before: it fills a gap that is within it.

        Only a gap within the text of a round, since before it sources and calls may be missing too.
        """
        gap = self._text.length > 0 and (bool(self._at.held) or self._at.misses_text)
        if gap and frame.attempt == self._at.placed_attempt and frame.round == self._round:
            if not self._kind.streaming or frame.offset > self._text.length:
                return
            self._place(frame, updates)
            self.wants_repair = False
            held, self._at.held = self._at.held, {}
            for seq in sorted(held):
                if not self.ended:
                    self._apply_in_turn(held[seq], updates)
            self._place_later(updates)

    def _release_held(self, updates: list[Update]) -> None:
        while self._at.held and not self.ended and (held := self._at.held.pop(self._at.next_seq, None)):
            self._apply_in_turn(held, updates)

    def _is_earlier(self, frame: frames.Queued | frames.Refused) -> bool:
        """Whether it is about an earlier publication of the request."""
        return 0 < frame.attempt < self._publication

    def _skip_gap(self, updates: list[Update]) -> None:
        """Continue with the frames after a gap that nothing fills."""
        if self._at.held and not self.ended:
            self._at.misses_text = True
            self.wants_log = True
            for seq in sorted(self._at.held):
                if not self.ended:
                    self._apply_in_turn(self._at.held[seq], updates)
        self._at.held.clear()

    def _adopt(self, known: "View", replayed: list[Update], updates: list[Update]) -> None:
        """Continue from where `known` is, whose updates begin with those of this view."""
        had = self._text.length
        for update in replayed:
            match update:
                case Text():
                    self._add_text(update.text[had:], updates)
                    had = max(0, had - len(update.text))
                case ToolStarted():
                    self._call(update.call_id, update.name, update.input, updates)
                case ToolEnded():
                    self._return(update.call_id, update.is_error, update.output, updates)
                case NextRound():
                    self._begin_round(update.number, updates)
                case RetrievedSources():
                    self._take_sources(update.sources, updates)
                case Started():
                    self._start(updates)
        self.paused, self.waiting = known.paused, not self.started and known.waiting
        if known._completed is not None:
            self._completed, self.wants_log = known._completed, True
        if known._at.is_after(self._at):
            known._at.held = {
                seq: frame
                for seq, frame in self._at.held.items()
                if frame.attempt == known._at.attempt and seq >= known._at.next_seq
            }
            self._at = known._at
            self.wants_log = self.wants_log or known.wants_log
        match replayed[-1:]:
            case [Finished() as last]:
                self._finish(last.message, last.usage, last.cut, updates)
            case [Broken() as last]:
                self.refused = known.refused
                self._end(last, updates)
            case _:
                self._release_held(updates)

    def _apply_in_turn(self, frame: frames.Frame, updates: list[Update]) -> None:
        self._at.next_seq = frame.seq + 1
        self._start(updates)
        self._apply(frame, updates)

    def _apply(self, frame: frames.Frame, updates: list[Update]) -> None:
        match frame:
            case frames.Delta():
                self._place(frame, updates)
            case frames.Resumed():
                self._resume(frame, updates)
            case frames.SourcesFound():
                self._take_sources(frame.sources, updates)
            case frames.ToolCalled():
                self._begin_round(frame.round, updates)
                self._call(frame.call_id, frame.name, frame.input, updates)
            case frames.ToolReturned():
                self._return(frame.call_id, frame.is_error, None, updates)
            case frames.Completed():
                self._complete(frame, updates)
            case frames.Paused():
                self.paused = self.wants_log = True
            case frames.Failed():
                self._end(Broken(frame.code, frame.message), updates)
            case _:
                pass

    def _start(self, updates: list[Update]) -> None:
        if not self.started:
            self.started, self.waiting = True, False
            updates.append(Started())

    def _add_text(self, text: str, updates: list[Update], number: int = 1) -> None:
        if text and self._kind.streaming:
            self._begin_round(number, updates)
            self._text.add(text)
            updates.append(Text(text))

    def _place(self, frame: frames.Delta, updates: list[Update]) -> None:
        """Add what is new of a piece, unless text before it was missed."""
        if not self._kind.streaming:
            return
        if frame.attempt != self._at.placed_attempt:
            if not self._at.misses_text:
                self._add_text(frame.text, updates, frame.round)
        elif frame.offset > self._text.length:
            self.wants_log = self.wants_log or not self._at.misses_text
            self._at.misses_text = True
            if len(self._at.later) < _HELD_FRAMES:
                self._at.later.append(frame)
        else:
            self._at.misses_text = False
            self._add_text(frame.text[self._text.length - frame.offset :], updates, frame.round)

    def _place_later(self, updates: list[Update]) -> None:
        later, self._at.later = self._at.later, []
        for frame in later:
            self._place(frame, updates)

    def _resume(self, frame: frames.Resumed, updates: list[Update]) -> None:
        """Another worker continues after `frame.offset`: that must be where this view is."""
        if not self._kind.streaming:
            return
        self._at.placed_attempt = frame.attempt
        if frame.offset > self._text.length:
            self._at.misses_text = True
            self.wants_repair = True
            self.wants_log = True
        elif (frame.offset, frame.sha256) == (self._text.length, self._text.sha256):
            self._at.misses_text = False
        else:
            self._end(INTERRUPTED, updates)

    def _take_sources(self, sources: tuple[Source, ...] | None, updates: list[Update]) -> None:
        if sources is not None and not self._sourced and self._text.length == 0:
            self._sourced = True
            updates.append(RetrievedSources(sources))

    def _call(self, call_id: str, name: str, given: dict[str, Any], updates: list[Update]) -> None:
        if self._tools.call(call_id, name, given):
            updates.append(ToolStarted(call_id, name, given))

    def _return(self, call_id: str, is_error: bool, output: str | None, updates: list[Update]) -> None:
        if output is None and self._kind.outputs:
            self.wants_log = self._tools.owe(call_id) or self.wants_log
        elif self._tools.ended(call_id):
            updates.append(ToolEnded(call_id, is_error, output))

    def _begin_round(self, number: int, updates: list[Update]) -> None:
        if number > self._round:
            self._round = number
            updates.append(NextRound(number))

    def _complete(self, frame: frames.Completed, updates: list[Update]) -> None:
        if self._kind.calls_at_end and len(self._tools) < frame.tool_calls:
            self._completed = frame
            self.wants_log = True
        else:
            self._finish(frame.message, frame.usage, frame.cut, updates)

    def _finish(self, message: Message, usage: Usage, cut: Cut | None, updates: list[Update]) -> None:
        """Add the rest of the saved content; if the text so far is not its beginning, end as interrupted."""
        if not self._text.begins(message.content):
            return self._end(INTERRUPTED, updates)
        self._add_text(message.content[self._text.length :], updates)
        self.ended = True
        updates.append(Finished(message, self._tools.finished(), usage, cut))
        return None

    def _end(self, last: Finished | Broken, updates: list[Update]) -> None:
        self.ended = True
        updates.append(last)
