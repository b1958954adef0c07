"""The streams that are read in this gateway by cursor: each run is followed once, however many read of it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from contracts.cursors import Cursor
from contracts.updates import Broken
from gateway.runs.followed_runs import Runs
from gateway.runs.live_run import LiveRun
from gateway.runs.wake import Followed
from gateway.traces.replay_buffer import ReadPosition, ReplayBuffer, ReplayEntry
from runtime import logs

_AT_ONCE = 100
_REST_SECONDS = 1.0
_FAULT = Broken("internal_error", "", local=True)


class StreamReader(Followed):
    """One reader of a stream: `take` what there is, `wait` for more."""

    def __init__(self, buffer: ReplayBuffer, cursor: Cursor | None) -> None:
        super().__init__()
        self.buffer = buffer
        self._position = ReadPosition(buffer, cursor)

    @property
    def ended(self) -> bool:
        """Whether the last entry was taken."""
        return self._position.ended

    @property
    def is_lost(self) -> bool:
        """Whether his cursor is of no place in the stream."""
        return self._position.is_lost()

    def take(self) -> list[ReplayEntry]:
        """What has come since the last call."""
        return self._position.take()


class _Followed:
    """A stream while it is buffered, and its readers. `ready` is done when what was said before is in it."""

    def __init__(self) -> None:
        self.buffer = ReplayBuffer()
        self.readers: set[StreamReader] = set()
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[None] | None = None

    async def listen(self, run: LiveRun) -> None:
        """Take from the run until it ends."""
        run.on_tick = self._tick
        while True:
            self.buffer.add(run.take())
            if not self.ready.done():
                self.ready.set_result(None)
            await self._tell()
            if self.buffer.ended:
                return
            await run.wait()

    async def _tell(self) -> None:
        """Wake all readers, some at a time so that others are served between, and for half of the time at
        most: what comes meanwhile goes out with the next round.
        """
        time = asyncio.get_running_loop().time
        began, readers = time(), tuple(self.readers)
        for start in range(0, len(readers), _AT_ONCE):
            for reader in readers[start : start + _AT_ONCE]:
                reader.nudge()
            await asyncio.sleep(0)
        if len(readers) > _AT_ONCE:
            await asyncio.sleep(min(time() - began, _REST_SECONDS))

    def fail(self, error: BaseException) -> None:
        """It could not be followed. Who reads already is told so."""
        if not self.ready.done():
            self.ready.set_exception(error)
        elif not self.buffer.ended:
            logs.get_logger("gateway").error("story_failed", exc_info=error)
            self.buffer.add([_FAULT])
            self._nudge()

    def _nudge(self) -> None:
        for reader in self.readers:
            reader.nudge()

    def _tick(self, now: float) -> None:
        for reader in self.readers:
            if reader.on_tick is not None:
                reader.on_tick(now)


class SharedStreams:
    """By trace. A stream is kept while it has a reader."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._followed: dict[str, _Followed] = {}

    def __len__(self) -> int:
        return len(self._followed)

    @contextlib.asynccontextmanager
    async def read(
        self, trace_id: str, conversation_id: str, *, cursor: Cursor | None, after_version: int
    ) -> AsyncIterator[StreamReader]:
        """Read a run's stream from its beginning, or from after a cursor, until the block ends.

        `after_version`: where in the conversation it begins. Raises BusUnavailable.
        """
        followed = self._followed.get(trace_id)
        if followed is None:
            followed = self._followed[trace_id] = _Followed()
            followed.task = asyncio.create_task(
                self._follow(followed, trace_id, conversation_id, after_version)
            )
            followed.task.add_done_callback(lambda task: self._done(task, followed, trace_id))
        reader = StreamReader(followed.buffer, cursor)
        followed.readers.add(reader)
        try:
            await asyncio.shield(followed.ready)
            yield reader
        finally:
            followed.readers.discard(reader)
            if not followed.readers:
                await self._close(followed, trace_id)

    async def _follow(
        self, followed: _Followed, trace_id: str, conversation_id: str, after_version: int
    ) -> None:
        """Follow the run until it has ended, and then until its last reader has gone: he may be slow."""
        async with self._runs.follow(
            trace_id, conversation_id, streaming=True, from_beginning=True, after_version=after_version
        ) as run:
            await followed.listen(run)
            if followed.buffer.is_local:
                self._forget(followed, trace_id)
            await asyncio.Event().wait()

    def _done(self, task: "asyncio.Task[None]", followed: _Followed, trace_id: str) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._forget(followed, trace_id)
            followed.fail(error)

    def _forget(self, followed: _Followed, trace_id: str) -> None:
        """The next reader begins again."""
        if self._followed.get(trace_id) is followed:
            del self._followed[trace_id]

    async def _close(self, followed: _Followed, trace_id: str) -> None:
        self._forget(followed, trace_id)
        task = followed.task
        assert task is not None
        task.cancel()
        await asyncio.wait([task])
        if followed.ready.done() and not followed.ready.cancelled():
            followed.ready.exception()  # every reader has had it
