"""All runs that are followed in this gateway: opening and closing, the tick, reconnects, the shutdown."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from litestar.handlers.base import BaseRouteHandler

from bus import Bus
from contracts.cursors import Cursor
from contracts.timings import STREAMS_DRAIN_SECONDS
from contracts.updates import Broken
from conversations.event_store.log import Log
from gateway.http.exchange import Connection
from gateway.http.problem_responses import Refusal
from gateway.openapi.described import described
from gateway.runs.after_pause import AfterPause
from gateway.runs.followed_run import FollowedRun, RunFollower, RunKey
from gateway.runs.run_reader import RunReader

TICK_SECONDS = 1.0

SHUTDOWN = Broken(
    "server_shutdown", "This server is stopping; the reply will be in the conversation.", local=True
)


class Stopping(Refusal):
    """This gateway begins nothing any more: 503."""

    def __init__(self) -> None:
        super().__init__("server_shutdown")


class Runs:
    """The table of followed runs. One task ticks for all of them."""

    def __init__(self, bus: Bus, log: Log) -> None:
        self._bus = bus
        self._log = log
        self._open: dict[FollowedRun, None] = {}
        self._shared: dict[RunKey, FollowedRun] = {}  # those of them that a new follower may join
        self._all_closed = asyncio.Event()
        self._all_closed.set()
        self._receiving: set[asyncio.Timeout] = set()
        self.stopping = False

    def __len__(self) -> int:
        return len(self._open)

    @contextlib.asynccontextmanager
    async def follow(
        self,
        trace_id: str,
        conversation_id: str,
        *,
        streaming: bool,
        outputs: bool = False,
        calls_at_end: bool = True,
        after_pause: AfterPause | None = None,
        from_beginning: bool = False,
        cursor: Cursor | None = None,
        publication: int = 1,
        after_version: int = 0,
    ) -> AsyncIterator[RunFollower]:
        """Follow a run from before its request is published, for the `publication`-th time, until the block
        ends; or `from_beginning`, wherever it stands: not begun, under way, or ended long ago. From its
        beginning a run is followed once, however many followers it has, and a follower may have a `cursor`.

        With `outputs` each ToolEnded has its output, and all updates come in the order of the canonical
        stream; only those `after_pause`, where it is given. Without `calls_at_end` the last update may lack
        tool calls; from its beginning a run always has them, as its followers share them. `after_version`:
        where in the conversation the run begins, as far as that is known. Raises Stopping, where `drain`
        would not see the run; BusUnavailable.
        """
        self.check()
        key = RunKey(trace_id, streaming, outputs, calls_at_end or from_beginning, publication)
        run = self._shared.get(key) if from_beginning else None
        if run is None or not run.can_be_joined:
            reader = RunReader(self._log, conversation_id, trace_id, after_version)
            run = self._begin(FollowedRun(self._bus.traces, reader, key, from_beginning=from_beginning))
        follower = run.join(cursor, after_pause)
        try:
            await run.caught_up()
            yield follower
        finally:
            run.followers.remove(follower)
            if not run.followers:
                self._end(run)
                await run.close()

    def _begin(self, run: FollowedRun) -> FollowedRun:
        self._open[run] = None
        self._all_closed.clear()
        if run.can_be_joined:
            self._shared[run.key] = run
        return run

    def _end(self, run: FollowedRun) -> None:
        del self._open[run]
        if not self._open:
            self._all_closed.set()
        if self._shared.get(run.key) is run:
            del self._shared[run.key]

    @described("server_shutdown")
    def check(self) -> None:
        """Raises Stopping once `drain` was called."""
        if self.stopping:
            raise Stopping

    @contextlib.asynccontextmanager
    async def receiving(self) -> AsyncIterator[None]:
        """The block reads a request that would begin a run. Raises Stopping as soon as `drain` is called."""
        self.check()
        patience = asyncio.timeout(None)
        try:
            async with patience:
                self._receiving.add(patience)
                yield
        except TimeoutError:
            if patience.expired():
                raise Stopping from None
            raise
        finally:
            self._receiving.discard(patience)

    @contextlib.asynccontextmanager
    async def ticking(self) -> AsyncIterator[None]:
        """Tick, and repair after reconnects, while the block runs."""
        remove = self._bus.on_reconnect(self._reconnected)
        ticker = asyncio.create_task(self._tick())
        try:
            yield
        finally:
            remove()
            ticker.cancel()

    async def drain(self) -> None:
        """Give what is open 8 s to end by itself, then end it with `server_shutdown`.

        What has not begun by now never does: a body may take longer to arrive than is left.
        """
        self.stopping = True
        for patience in self._receiving:
            patience.reschedule(asyncio.get_running_loop().time())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STREAMS_DRAIN_SECONDS):
                await self._all_closed.wait()
        for run in tuple(self._open):
            run.interrupt(SHUTDOWN)

    def _reconnected(self) -> None:
        """Frames that were sent meanwhile were missed."""
        for run in tuple(self._open):
            run.missed_frames()

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = loop.time()
            for run in tuple(self._open):
                run.tick(now)


@described("server_shutdown")
async def accepts_runs(connection: Connection, _: BaseRouteHandler) -> None:
    """Guard: this process is not about to stop. Raises Refusal: 503."""
    connection.app.state.services.runs.check()
