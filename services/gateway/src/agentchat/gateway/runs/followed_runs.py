"""Keep all runs that this gateway follows: open, close, tick, repair after reconnects, shut down."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial

from agentchat.bus.bus import Bus
from agentchat.contracts.stream_cursors import Cursor
from agentchat.contracts.timings import STREAMS_DRAIN_SECONDS
from agentchat.contracts.updates import Broken
from agentchat.conversations.event_store.log import Log
from agentchat.gateway.http.refusals import Refusal
from agentchat.gateway.runs.after_pause import AfterPause
from agentchat.gateway.runs.followed_run import (
    FollowedRun,
    RunFollower,
    RunKey,
    RunReader,
    ShowsReasoning,
    hide_reasoning,
)
from agentchat.gateway.runs.run_request import ViewKind

TICK_SECONDS = 1.0

SHUTDOWN = Broken(
    "server_shutdown", "This server is stopping; the reply will be in the conversation.", local=True
)


class Stopping(Refusal):
    """This gateway is stopping and starts nothing: 503."""

    def __init__(self) -> None:
        super().__init__("server_shutdown")


class FollowedRuns:
    """The table of followed runs. One task ticks for all of them."""

    def __init__(self, bus: Bus, log: Log, shows_reasoning: ShowsReasoning = hide_reasoning) -> None:
        self._bus = bus
        self._log = log
        self._shows_reasoning = shows_reasoning
        self._open: dict[FollowedRun, None] = {}
        self._shared: dict[RunKey, FollowedRun] = {}  # those of them that a new follower may join
        self._all_closed = asyncio.Event()
        self._all_closed.set()
        self.stopping = False

    def __len__(self) -> int:
        return len(self._open)

    async def follow(
        self,
        trace_id: str,
        conversation_id: str,
        kind: ViewKind,
        *,
        after_pause: AfterPause | None = None,
        from_beginning: bool = False,
        cursor: Cursor | None = None,
        publication: int = 1,
        after_version: int = 0,
    ) -> RunFollower:
        """Follow a run from before its request is published, until the follower is closed.

        Args:
            trace_id: The trace of the run.
            conversation_id: Its conversation.
            kind: What is shown. From its beginning a run always has its calls at its end, as followers share
                the updates.
            after_pause: Only the updates after this pause.
            from_beginning: Wherever the run stands: not begun, under way, or ended long ago. Such a run is
                followed once, however many followers it has, and a follower may have a `cursor`.
            cursor: The place after which the updates begin.
            publication: How often the request was published by now.
            after_version: Where in the conversation the run begins, as far as that is known.

        Raises:
            Stopping: `drain` would not see the run.
            BusUnavailable
        """
        self.check()
        key = RunKey(trace_id, kind._replace(calls_at_end=kind.calls_at_end or from_beginning), publication)
        run = self._shared.get(key) if from_beginning else None
        if run is None or not run.can_be_joined:
            shows = self._shows_reasoning if kind.reasoning else hide_reasoning
            reader = RunReader(self._log, conversation_id, trace_id, after_version, shows)
            run = FollowedRun(self._bus.traces, reader, key, from_beginning=from_beginning)
            await run.follow()
            self._begin(run)
        follower = run.join(cursor, after_pause, partial(self._leave, run))
        try:
            await run.wait_until_caught_up()
        except BaseException:
            await follower.aclose()
            raise
        return follower

    async def _leave(self, run: FollowedRun, follower: RunFollower) -> None:
        run.followers.remove(follower)
        if not run.followers:
            self._end(run)
            await run.close()

    def _begin(self, run: FollowedRun) -> None:
        self._open[run] = None
        self._all_closed.clear()
        if run.can_be_joined:
            self._shared[run.key] = run

    def _end(self, run: FollowedRun) -> None:
        del self._open[run]
        if not self._open:
            self._all_closed.set()
        if self._shared.get(run.key) is run:
            del self._shared[run.key]

    def check(self) -> None:
        """Raise Stopping once `drain` was called."""
        if self.stopping:
            raise Stopping

    @contextlib.asynccontextmanager
    async def run_ticker(self) -> AsyncIterator[None]:
        """Tick, and repair after reconnects, while the block runs."""
        remove = self._bus.on_reconnect(self._repair_all)
        ticker = asyncio.create_task(self._tick())
        try:
            yield
        finally:
            remove()
            ticker.cancel()

    async def drain(self) -> None:
        """Give open streams 8 s to end by themselves, then end them with `server_shutdown`.

        Nothing new starts.
        """
        self.stopping = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STREAMS_DRAIN_SECONDS):
                await self._all_closed.wait()
        for run in tuple(self._open):
            run.interrupt(SHUTDOWN)

    def _repair_all(self) -> None:
        """Read back the frames that were missed while NATS was away."""
        for run in tuple(self._open):
            run.note_missed_frames()

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = loop.time()
            for run in tuple(self._open):
                run.tick(now)
