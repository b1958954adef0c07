"""Publish a run's frames: numbered, paced, and only while the run's lease is live.

Crosses to the gateway: `gateway.runs.follow_frames.FollowedRun.deliver`. After a takeover, the next worker
reads the frames in `orchestrator.run.interrupted_text`.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from agentchat.bus.trace_channel import Traces
from agentchat.contracts import events, frames, updates
from agentchat.contracts.timings import ALIVE_SECONDS
from agentchat.contracts.values import RunWarning
from agentchat.conversations.aggregate.canonical_stream import get_changed_model, thin_cuts
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.rounds import Call
from agentchat.conversations.leases.leases import Lease
from agentchat.orchestrator.run.interrupted_text import SentOutput
from agentchat.orchestrator.run.interruption import Interrupted
from agentchat.runtime import failpoints

PIECES_A_SECOND = 60
"""Frames per second; a screen shows no more. Slower models never wait."""

PIECES_AT_ONCE = 30
INTERVAL_SECONDS = 0.05

_HARMLESS = frames.Completed | frames.Failed | frames.Paused | frames.Alive
"""Frames that need no live lease: ends and pauses are in the log first, keep-alives change nothing."""

_FRAME_CHARACTERS = 64 * 1024

_REPEAT_SECONDS = 2.0
"""Interval at which text is repeated, for readers that lost some, as when a NATS node dies."""


class FramePacer:
    """Pacing of one attempt's text frames.

    A frame costs this worker, the bus and each gateway about the same whatever its length. So if a model
    keeps sending faster than PIECES_A_SECOND, its pieces are joined and one frame goes out each
    INTERVAL_SECONDS.
    """

    def __init__(self) -> None:
        self._level = 0.0
        self._at = 0.0

    def pause_after(self, now: float) -> float:
        """Return how long to collect text after a frame sent at `now`, both in seconds."""
        self._level = max(0.0, self._level - (now - self._at) * PIECES_A_SECOND) + 1.0
        self._at = now
        if self._level <= PIECES_AT_ONCE:
            return 0.0
        self._level = PIECES_AT_ONCE + INTERVAL_SECONDS * PIECES_A_SECOND  # the pause drains this again
        return INTERVAL_SECONDS


class LeaseFence:
    """The bus, open while the run's lease is live by this worker's own clock.

    A worker that is cut off from Postgres but not from NATS, or was suspended, cannot know whether another
    worker has taken the lease.
    """

    def __init__(self, traces: Traces, lease: Lease) -> None:
        self._traces = traces
        self._lease = lease

    @property
    def is_open(self) -> bool:
        """True if any frame may be sent now."""
        return self._lease.is_live

    async def wait_until_allowed(self, frame: frames.Frame) -> None:
        """Wait until the lease is live. Raises Interrupted if it is lost or was not renewed in time."""
        if isinstance(frame, _HARMLESS) or await self._lease.wait_until_live():
            return
        raise Interrupted("lost")

    async def publish_frame(self, trace_id: str, frame: frames.Frame) -> None:
        """Publish a frame on the bus."""
        await self._traces.publish_frame(trace_id, frame)


class FrameSink(Protocol):
    """A target of frames: the bus behind a fence, or nothing during a replay."""

    @property
    def is_open(self) -> bool:
        """True if any frame may be sent now, without `wait_until_allowed`."""

    async def wait_until_allowed(self, frame: frames.Frame) -> None:
        """Wait until the frame may be sent. Raises Interrupted if this worker may not send it any more."""

    async def publish_frame(self, trace_id: str, frame: frames.Frame) -> None:
        """Publish a frame. Never raises."""


class TraceChannel:
    """The frames of one attempt. Publishing never fails: readers repair what they miss.

    Methods that send a frame raise Interrupted if another worker may have the run.
    """

    def __init__(
        self, sink: FrameSink, trace_id: str, attempt: int, *, alive_seconds: float = ALIVE_SECONDS
    ) -> None:
        self.attempt = attempt
        self.round = 0
        self.deltas = 0  # frames of text that were sent
        self._sink = sink
        self._trace_id = trace_id
        self._alive_seconds = alive_seconds
        self._seq = 0
        self._pieces: list[str] = []
        self._before = 0  # code points of earlier rounds
        self._length = 0
        self._cuts: list[int] = []
        self._first_text_at: float | None = None  # of the run, if this round began its text
        self.has_reasoning = False  # readers have reasoning of this round
        self._reasoned = 0  # code points of it by this attempt
        self._repeated = (0, 0)  # ends of the last two repetitions, within the round
        self._pace = FramePacer()
        self._loop = asyncio.get_running_loop()
        self._last_sent = self._repeated_at = self._loop.time()

    async def accept(self, conversation_id: str) -> None:
        """Send the first frame of the first attempt."""
        await self.send(frames.Accepted(seq=0, attempt=0, conversation_id=conversation_id))

    async def resume(self, conversation_id: str, run: Run, already: SentOutput) -> None:
        """Send the first frames of a later attempt: its offset, and what was recorded but not sent.

        Text that was sent of the next round is kept, in case the run ends before that round starts.
        """
        self.begin_round(len(run.rounds) + 1, already.text, already.cuts)
        sent = run.text + already.text
        self._before = len(run.text)
        digest = hashlib.sha256(sent.encode()).hexdigest()
        await self.send(
            frames.Resumed(seq=0, attempt=0, conversation_id=conversation_id, offset=len(sent), sha256=digest)
        )
        if run.sources is not None and not already.sourced:
            await self.send(frames.SourcesFound(seq=0, attempt=0, sources=run.sources))
        await self.send_warnings(run.warnings)
        for each in run.rounds:
            for call in each.calls:
                if call.call_id not in already.called:
                    await self.send(_build_tool_called(each.number, call))
                if call.output is not None and call.call_id not in already.returned:
                    await self.send(_build_tool_returned(call.call_id, call.is_error))

    async def send_warnings(self, warnings: Iterable[RunWarning]) -> None:
        """Send warnings; readers drop those that they have."""
        for each in warnings:
            await self.send(frames.WarningFrame(seq=0, attempt=0, warning=each))

    async def announce(self, done: Sequence[events.Event]) -> None:
        """Send the frames of events that were appended."""
        for event in done:
            match event:
                case events.ToolCalled():
                    await self.send(_build_tool_called(event.round, event))
                case events.ToolReturned():
                    await self.send(_build_tool_returned(event.call_id, event.is_error))
                case events.SourcesRetrieved():
                    await self.send(frames.SourcesFound(seq=0, attempt=0, sources=event.sources))
                case events.ModelReplied():
                    self._end_round()
                case _:
                    pass

    async def send(self, frame: frames.Frame) -> None:
        """Publish a frame of this attempt; its seq and attempt are set here."""
        if not self._sink.is_open:
            await self._sink.wait_until_allowed(frame)
        self._seq += 1  # after the wait: other frames may have been sent meanwhile
        self._last_sent = self._loop.time()
        await self._sink.publish_frame(self._trace_id, replace(frame, seq=self._seq, attempt=self.attempt))

    def begin_round(
        self, number: int, sent: str = "", cuts: tuple[int, ...] = (), *, has_reasoning: bool = False
    ) -> None:
        """Start a round, of which `sent` was sent before, and reasoning if `has_reasoning`."""
        self.has_reasoning = has_reasoning or (number == self.round and self.has_reasoning)
        self._first_text_at = self._first_text_at if number == self.round else None
        self._reasoned = 0
        self.round = number
        self._pieces = [sent] if sent else []
        self._length = len(sent)
        self._cuts = list(cuts)
        self._repeated = (len(sent), len(sent))

    def _end_round(self) -> None:
        self._before += self._length
        self.begin_round(0)

    async def send_text(self, text: str) -> None:
        """Send the next piece of the round's text, then pause if needed to collect what follows."""
        for start in range(0, len(text), _FRAME_CHARACTERS):
            piece = text[start : start + _FRAME_CHARACTERS]
            if not self._sink.is_open:
                await self._sink.wait_until_allowed(self._build_delta(piece))
            delta = self._build_delta(piece)
            self._seq += 1
            self._last_sent = self._loop.time()
            self.deltas += 1
            if self._before + self._length == 0:
                self._first_text_at = self._last_sent
            self._pieces.append(piece)
            self._length += len(piece)
            self._cuts.append(self._length)
            await self._sink.publish_frame(self._trace_id, delta)
            failpoints.reach("orchestrator-said")
            if pause := self._pace.pause_after(self._last_sent):
                await asyncio.sleep(pause)

    async def send_reasoning(self, text: str) -> None:
        """Send the next piece of the round's reasoning, at the same pace."""
        for start in range(0, len(text), _FRAME_CHARACTERS):
            piece, offset = text[start : start + _FRAME_CHARACTERS], self._reasoned
            self.has_reasoning, self._reasoned = True, offset + len(piece)
            await self.send(
                frames.ReasoningFrame(seq=0, attempt=0, round=self.round, text=piece, offset=offset)
            )
            if pause := self._pace.pause_after(self._last_sent):
                await asyncio.sleep(pause)

    def _build_delta(self, piece: str) -> frames.DeltaFrame:
        offset = self._before + self._length
        return frames.DeltaFrame(
            seq=self._seq + 1, attempt=self.attempt, round=self.round, text=piece, offset=offset
        )

    def measure_first_token(self, run_seconds: float) -> int | UnsetType:
        """Return the milliseconds from the run's message, `run_seconds` ago, to its first piece of text.

        UNSET unless this attempt sent that piece in this round.
        """
        at = self._first_text_at
        return UNSET if at is None else max(0, round((run_seconds - self._loop.time() + at) * 1000))

    @property
    def text(self) -> str:
        """The text of the round so far."""
        return "".join(self._pieces)

    @property
    def cuts(self) -> tuple[int, ...]:
        """The code points at which the round's text was cut into frames, thinned out."""
        return thin_cuts(self._cuts)

    def build_text_events(self, now: str) -> tuple[events.Delta, ...]:
        """Build the event of the round's text so far; () if there is none."""
        text = self.text
        if not text:
            return ()
        return (events.Delta(trace_id=self._trace_id, at=now, round=self.round, text=text, cuts=self.cuts),)

    async def repeat_text(self) -> None:
        """Send again the text since the last repetition but one. Called about once a second.

        A reader that missed nothing drops it; another need not wait for the log. TRACES may lack some of it:
        a stream drops what arrives while it has no leader.
        """
        now = self._loop.time()
        if now - self._repeated_at < _REPEAT_SECONDS or not self._sink.is_open:
            return
        self._repeated_at = now
        start, last = self._repeated
        self._repeated = (last, self._length)
        text = self.text[start:] if self._length > last else ""
        for at in range(0, len(text), _FRAME_CHARACTERS):
            piece, offset = text[at : at + _FRAME_CHARACTERS], self._before + start + at
            await self._sink.publish_frame(
                self._trace_id,
                frames.DeltaFrame(seq=0, attempt=self.attempt, round=self.round, text=piece, offset=offset),
            )

    async def send_alive(self) -> None:
        """Send a keep-alive frame if nothing was sent for `alive_seconds`. Called about once a second."""
        if self._loop.time() - self._last_sent >= self._alive_seconds:
            await self.send(frames.Alive(seq=0, attempt=0))


def _build_tool_called(round_: int, call: Call | events.ToolCalled) -> frames.ToolCalledFrame:
    return frames.ToolCalledFrame(
        seq=0,
        attempt=0,
        round=round_,
        call_id=call.call_id,
        name=call.name,
        input=call.input,
        needs_approval=call.needs_approval,
        is_client=call.is_client,
    )


def _build_tool_returned(call_id: str, is_error: bool) -> frames.ToolReturnedFrame:
    return frames.ToolReturnedFrame(seq=0, attempt=0, call_id=call_id, is_error=is_error)


def build_end_frame(run: Run) -> frames.Completed | frames.Failed:
    """Build the frame that tells how a run ended, unnumbered."""
    if run.state == "completed" and run.reply is not None:
        tool_calls = sum(len(each.calls) for each in run.rounds)
        return frames.Completed(
            seq=0,
            attempt=run.attempt,
            message=run.reply,
            tool_calls=tool_calls,
            is_sourced=run.sources is not None,
            usage=run.usage,
            cut=run.cut,
            model=get_changed_model(run),
        )
    if run.state == "cancelled":
        end = updates.REPLACED if run.code == updates.REPLACED.code else updates.CANCELLED
        return frames.Failed(seq=0, attempt=run.attempt, code=end.code, message=end.message)
    return frames.Failed(
        seq=0, attempt=run.attempt, code=run.code or "internal_error", message=run.detail or ""
    )
