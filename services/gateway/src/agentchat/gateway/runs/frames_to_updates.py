"""Turn the frames of one run into updates for a reader. Pure.

Frames may be late, doubled, from a stopped worker, or missing. Missing frames are requested (`wants_repair`);
what no longer exists is taken from the saved message: late, never wrong (docs/change/rules.md 4).
"""

from collections.abc import Iterable

from msgspec.structs import replace

from agentchat.contracts import frames
from agentchat.contracts.updates import (
    CANCELLED,
    INTERRUPTED,
    STEERED,
    Broken,
    Finished,
    NextRound,
    ReasoningUpdate,
    RetrievedSources,
    Started,
    TextUpdate,
    ToolEnded,
    ToolProgressed,
    ToolStarted,
    Update,
    WarningUpdate,
)
from agentchat.contracts.values import FinishedCall
from agentchat.conversations.aggregate import approval_rules
from agentchat.conversations.aggregate.canonical_stream import list_returned_calls, replay_updates
from agentchat.conversations.aggregate.conversation import Run
from agentchat.gateway.runs.run_request import STREAM, ViewKind
from agentchat.gateway.runs.sent_updates import FramePosition, Phase, SentUpdates

_HELD_FRAMES = 20_000
_GONE = Broken("conversation_not_found", "No such conversation.")


class View:
    """The view of a run. `wants_repair`: frames are missing; `wants_log`: only the log has the rest.

    A view that is not `streaming` gives the end and no TextUpdate, so that no text can be wrong. With
    `outputs` a ToolEnded has its output, which only the log has. With `calls_at_end` Finished has all calls
    with their outputs, and the sources, for which the end waits. `publication` is how often the request was
    published by now; what became of earlier publications does not count.
    """

    def __init__(self, kind: ViewKind = STREAM, *, publication: int = 1) -> None:
        self.phase = Phase.NEW
        self.at = FramePosition()
        self.wants_repair = False
        self.wants_log = False
        self.awaits_calls = False
        """The run has completed; the end waits for its calls or its sources."""
        self._kind = kind
        self._publication = publication
        self._sent = SentUpdates(needs_outputs=kind.outputs)
        self._calls: tuple[FinishedCall, ...] = ()  # that have returned, as the log has them
        self._new: list[Update] = []

    @property
    def started(self) -> bool:
        """True if the user's message is saved."""
        return self._sent.started

    @property
    def ended(self) -> bool:
        """True if the last update was given."""
        return self.phase in (Phase.REFUSED, Phase.ENDED)

    @property
    def misses_text(self) -> bool:
        """True if text was missed."""
        return self.at.misses_text

    @property
    def reasoning_attempt(self) -> int:
        """The attempt whose reasoning was sent last."""
        return self._sent.reasoning.attempt

    def feed(self, frame: frames.Frame) -> list[Update]:
        """Return the updates that one more frame brings.

        The first numbered frame, usually Accepted, brings Started. DeltaFrame brings TextUpdate,
        ToolCalledFrame ToolStarted, ToolReturnedFrame ToolEnded, Completed Finished, and Failed or Refused
        Broken.
        """
        if self.ended or (frame.seq and frame.attempt < self.at.attempt):
            return []
        match frame:
            case frames.DeltaFrame() if frame.seq:  # first, since most frames are these
                self._take_numbered(frame)
            case frames.DeltaFrame():
                self._take_repeated(frame)
            case frames.Completed() | frames.Failed():
                self._start()
                self._apply(frame)
            case frames.ToolProgressFrame():
                if self._kind.outputs:
                    self._send(ToolProgressed(frame.call_id, frame.progress, frame.total, frame.message))
            case frames.Paused() if not frame.seq:
                self._apply(frame)
            case frames.Queued() | frames.Refused() | frames.Steered():
                self._take_before_start(frame)
            case _ if frame.seq:
                self._take_numbered(frame)
        return self._take_new()

    def feed_all(self, found: Iterable[frames.Frame]) -> list[Update]:
        """Return the updates of the frames that TRACES keeps of the trace, from its first one on.

        What is missing even there is lost: the view continues without it.
        """
        self.wants_repair = False
        if self.ended:
            return []
        known = View(self._kind._replace(outputs=False), publication=self._publication)
        stream = [update for frame in found for update in known.feed(frame)]
        stream += known.skip_gap()
        if self._sent.text.is_beginning_of(
            "".join(update.text for update in stream if isinstance(update, TextUpdate))
        ):
            self._merge(stream)
            self._continue_after(known)
        return self.skip_gap()

    def feed_log(self, run: Run | None) -> list[Update]:
        """Return the updates that the log brings: the acceptance, text that was missed, the run's end.

        A run has begun in the log before anybody gets its frames. If it is not there, the log has lost it.
        """
        if self.ended:
            return []
        if run is None:
            if self.started:
                self._end(INTERRUPTED)
            return self._take_new()
        follows = self._sent.text.is_beginning_of(run.text)
        is_over = run.state != "running" or bool(run.pending)
        self._calls = list_returned_calls(run)
        stream = replay_updates(run, reasoning=self._kind.reasoning)
        self._merge(stream, texts=follows and (is_over or self.misses_text))
        if run.pending:
            self._end(approval_rules.build_pause(run) if follows else INTERRUPTED)
        elif self.misses_text and follows:
            self._place_later()
        self.wants_log = (self.awaits_calls or bool(self._sent.owed)) and not self.ended
        return self._take_new()

    def hide_reasoning(self) -> None:
        """Send no reasoning from now on: the agent hides it."""
        self._kind = self._kind._replace(reasoning=False)

    def feed_erased(self) -> list[Update]:
        """Return the end of a run whose conversation was erased: what ran in it was cancelled before."""
        return self.interrupt(CANCELLED if self.started else _GONE)

    def interrupt(self, last: Broken) -> list[Update]:
        """End the view with this update, whatever becomes of the run."""
        if not self.ended:
            self._end(last)
        return self._take_new()

    def skip_gap(self) -> list[Update]:
        """Continue with the frames after a gap that nothing fills."""
        if self.at.held and not self.ended:
            self.at.misses_text = True
            self.wants_log = True
            self._apply_held()
        return self._take_new()

    def _take_new(self) -> list[Update]:
        new, self._new = self._new, []
        return new

    def _take_before_start(self, frame: frames.Queued | frames.Refused | frames.Steered) -> None:
        """Take what becomes of the request, unless it is about an earlier publication of it."""
        if self.started or 0 < frame.attempt < self._publication:
            return
        match frame:
            case frames.Queued():
                self.phase = Phase.QUEUED
            case frames.Refused(code=code, message=message, approvals=approvals, running_trace_id=running):
                self._end(Broken(code, message, approvals=approvals, running_trace_id=running), Phase.REFUSED)
            case frames.Steered(running_trace_id=running):
                self._end(Broken(STEERED, "", running_trace_id=running))

    def _take_numbered(self, frame: frames.Frame) -> None:
        at = self.at
        if frame.attempt > at.attempt:
            at.begin_attempt(frame.attempt)
            if self.phase is Phase.PAUSED:
                self.phase = Phase.RUNNING
        if frame.seq > at.next_seq and self._kind.streaming:
            if len(at.held) < _HELD_FRAMES:
                at.held[frame.seq] = frame
            self.wants_repair = True
        elif frame.seq >= at.next_seq:
            self._apply_in_turn(frame)
            self._release_held()

    def _take_repeated(self, frame: frames.DeltaFrame) -> None:
        """Take text that was sent before: it fills a gap within it.

        It fills only gaps in a round's text, since before that text sources and calls may be missing too.
        """
        at, length = self.at, self._sent.text.length
        is_in_gap = length > 0 and (bool(at.held) or at.misses_text)
        is_placed = frame.attempt == at.placed_attempt and frame.round == self._sent.round
        if is_in_gap and is_placed and self._kind.streaming and frame.offset <= length:
            self._place(frame)
            self.wants_repair = False
            self._apply_held()
            self._place_later()

    def _release_held(self) -> None:
        while self.at.held and not self.ended and (held := self.at.held.pop(self.at.next_seq, None)):
            self._apply_in_turn(held)

    def _apply_held(self) -> None:
        """Apply all held frames, whatever is missing between them."""
        held, self.at.held = self.at.held, {}
        for seq in sorted(held):
            if not self.ended:
                self._apply_in_turn(held[seq])

    def _apply_in_turn(self, frame: frames.Frame) -> None:
        self.at.next_seq = frame.seq + 1
        self._start()
        self._apply(frame)

    def _apply(self, frame: frames.Frame) -> None:
        match frame:
            case frames.DeltaFrame():
                self._place(frame)
            case frames.ReasoningFrame():
                if self._kind.reasoning:
                    self._add_reasoning(self._sent.reasoning.take_piece(frame), frame.round)
            case frames.Resumed():
                self._resume(frame)
            case frames.SourcesFound():
                self._send(RetrievedSources(frame.sources))
            case frames.WarningFrame():
                self._send(WarningUpdate(frame.warning))
            case frames.ToolCalledFrame():
                self._send(NextRound(frame.round))
                shown = (frame.call_id, frame.name, frame.input, frame.needs_approval, frame.is_client)
                self._send(ToolStarted(*shown))
            case frames.ToolReturnedFrame():
                self._send(ToolEnded(frame.call_id, frame.is_error))
                self.wants_log = self.wants_log or bool(self._sent.owed)
            case frames.Completed():
                self._complete(frame)
            case frames.Paused():
                self.phase = Phase.PAUSED
                self.wants_log = True
            case frames.Failed():
                self._end(Broken(frame.code, frame.message))
            case _:
                pass  # Accepted and Alive: `_start` has sent Started

    def _merge(self, stream: Iterable[Update], *, texts: bool = True) -> None:
        """Send what is new of a run's updates from its beginning, whose text begins with what was sent.

        Without `texts` only what is no text; a round after text that is still missing then begins with that.
        """
        length, stream = 0, list(stream)
        reasoning = _join_reasoning(stream)
        for update in stream:
            match update:
                case ReasoningUpdate():
                    if not self._kind.streaming or self._sent.text.length == length:
                        text = reasoning.pop(update.round, "")
                        self._add_reasoning(self._sent.reasoning.take_rest(text, update.round), update.round)
                case TextUpdate():
                    if texts:
                        self._add_text(update.text[max(0, self._sent.text.length - length) :])
                    length += len(update.text)
                case NextRound() if self._kind.streaming and self._sent.text.length != length:
                    pass  # it began, or will, with its text
                case Started():
                    self._start()
                case Finished():
                    self._finish(update)
                case Broken():
                    self._end(update)
                case _:
                    self._send(update)
        self.wants_log = self.wants_log or bool(self._sent.owed)

    def _continue_after(self, known: "View") -> None:
        """Continue from where another view of the run is, whose updates were merged."""
        if self.ended:
            if known.phase is Phase.REFUSED:
                self.phase = Phase.REFUSED
            return
        if known.started or not self.started:
            self.phase = known.phase
        if known.awaits_calls:
            self.awaits_calls = self.wants_log = True
        if known.at.is_after(self.at):
            self.at = replace(known.at, held=self.at.list_held_after(known.at))
            self.wants_log = self.wants_log or known.wants_log
        self._sent.reasoning.attempt = known.reasoning_attempt
        self._release_held()

    def _start(self) -> None:
        if not self.started:
            self.phase = Phase.RUNNING
            self._send(Started())

    def _send(self, update: Update) -> None:
        if self._sent.add(update):
            self._new.append(update)

    def _add_text(self, text: str) -> None:
        if text and self._kind.streaming:
            self._send(TextUpdate(text))

    def _add_reasoning(self, text: str, number: int) -> None:
        if text:
            self._send(NextRound(number))
            self._send(ReasoningUpdate(text, number))

    def _place(self, frame: frames.DeltaFrame) -> None:
        """Add what is new of a piece, unless text before it was missed."""
        length = self._sent.text.length
        if not self._kind.streaming or frame.attempt != self.at.placed_attempt:
            return
        if frame.offset > length:
            self.wants_log = self.wants_log or not self.at.misses_text
            self.at.misses_text = True
            if len(self.at.later) < _HELD_FRAMES:
                self.at.later.append(frame)
            return
        self.at.misses_text = False
        if text := frame.text[length - frame.offset :]:
            if frame.round != self._sent.round:
                self._send(NextRound(frame.round))
            self._send(TextUpdate(text))

    def _place_later(self) -> None:
        later, self.at.later = self.at.later, []
        for frame in later:
            self._place(frame)

    def _resume(self, frame: frames.Resumed) -> None:
        """Continue after `frame.offset` of another worker, if that is where this view is."""
        if not self._kind.streaming:
            return
        text = self._sent.text
        self.at.placed_attempt = frame.attempt
        if frame.offset > text.length:
            self.at.misses_text = True
            self.wants_repair = True
            self.wants_log = True
        elif (frame.offset, frame.sha256) == (text.length, text.sha256):
            self.at.misses_text = False
        else:
            self._end(INTERRUPTED)

    def _complete(self, frame: frames.Completed) -> None:
        misses_sources = frame.is_sourced and self._sent.sources is None
        if self._kind.calls_at_end and (misses_sources or len(self._calls) < frame.tool_calls):
            self.awaits_calls = self.wants_log = True
        else:
            self._finish(frame)

    def _finish(self, end: Finished | frames.Completed) -> None:
        """Add the rest of the saved content; if the text so far is not its beginning, end as interrupted."""
        content = end.message.content
        if not self._sent.text.is_beginning_of(content):
            self._end(INTERRUPTED)
            return
        self._add_text(content[self._sent.text.length :])
        self._end(Finished(end.message, self._calls, end.usage, end.cut, self._sent.sources, end.model))

    def _end(self, last: Finished | Broken, phase: Phase = Phase.ENDED) -> None:
        self.phase = phase
        self._new.append(last)


def _join_reasoning(stream: Iterable[Update]) -> dict[int, str]:
    """Return the reasoning of each round."""
    joined: dict[int, str] = {}
    for update in stream:
        if isinstance(update, ReasoningUpdate):
            joined[update.round] = joined.get(update.round, "") + update.text
    return joined
