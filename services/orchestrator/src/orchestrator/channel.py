"""The live side of a run: its frames, numbered, and the text of the round that is being said."""

import asyncio
import hashlib
from typing import Protocol

from msgspec.structs import replace

from contracts import frames
from contracts.timings import ALIVE_SECONDS
from runtime import failpoints

_FRAME_CHARACTERS = 64 * 1024


class Door(Protocol):
    """Where frames go: the bus behind a fence, for a run that has readers."""

    async def ready(self, frame: frames.Frame) -> None:
        """Return when it may be sent. Raises Interrupted where that is not this worker's to do any more."""

    async def publish_frame(self, trace_id: str, frame: frames.Frame) -> None:
        """Send it. Never waits and never raises."""


class TraceChannel:
    """Frames of one attempt. Publishing never fails: readers repair what they miss.

    What sends a frame raises Interrupted where another worker may have the run.
    """

    def __init__(self, door: Door, trace_id: str, attempt: int) -> None:
        self.attempt = attempt
        self.round = 0
        self._door = door
        self._trace_id = trace_id
        self._seq = 0
        self._parts: list[str] = []
        self._before = 0  # code points of earlier rounds
        self._length = 0
        self._cuts: list[int] = []
        self._loop = asyncio.get_running_loop()
        self._last_sent = self._loop.time()

    async def accept(self, conversation_id: str) -> None:
        """The first frame of the first attempt."""
        await self.send(frames.Accepted(seq=0, attempt=0, conversation_id=conversation_id))

    async def resume(self, conversation_id: str, sent: str) -> None:
        """The first frame of a later attempt; `sent` is the run's text so far, over all rounds."""
        self._before = len(sent) - self._length
        digest = hashlib.sha256(sent.encode()).hexdigest()
        await self.send(
            frames.Resumed(seq=0, attempt=0, conversation_id=conversation_id, offset=len(sent), sha256=digest)
        )

    async def send(self, frame: frames.Frame) -> None:
        """Publish a frame of this attempt; its seq and attempt are set here."""
        await self._door.ready(frame)
        self._seq += 1  # behind the wait, during which others may be sent
        self._last_sent = self._loop.time()
        await self._door.publish_frame(self._trace_id, replace(frame, seq=self._seq, attempt=self.attempt))

    def begin_round(self, number: int, sent: str = "", cuts: tuple[int, ...] = ()) -> None:
        """What is said from now on is of this round; `sent` of it is out already."""
        self.round = number
        self._parts = [sent] if sent else []
        self._length = len(sent)
        self._cuts = list(cuts)

    def end_round(self) -> None:
        """The round is in the log."""
        self._before += self._length
        self.begin_round(0)

    async def say(self, text: str) -> None:
        """Send the next piece of the round's text: whatever has come in since the last piece, as one."""
        for start in range(0, len(text), _FRAME_CHARACTERS):
            piece = text[start : start + _FRAME_CHARACTERS]
            offset = self._before + self._length
            await self.send(frames.Delta(seq=0, attempt=0, round=self.round, text=piece, offset=offset))
            self._parts.append(piece)
            self._length += len(piece)
            self._cuts.append(self._length)
            failpoints.reach("orchestrator-said")

    @property
    def said(self) -> str:
        """The text of the round so far, in whichever attempt it was said."""
        return "".join(self._parts)

    @property
    def cuts(self) -> tuple[int, ...]:
        """Where its frames ended, in code points."""
        return tuple(self._cuts)

    async def say_alive(self) -> None:
        """To be called every second or so: a quiet run is heard of every five."""
        if self._loop.time() - self._last_sent >= ALIVE_SECONDS:
            await self.send(frames.Alive(seq=0, attempt=0))
