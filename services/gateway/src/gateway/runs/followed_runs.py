"""All runs that are followed in this gateway: opening and closing, the tick, reconnects, the shutdown."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from litestar.connection import ASGIConnection
from litestar.handlers.base import BaseRouteHandler

from bus import Bus
from contracts.timings import STREAMS_DRAIN_SECONDS
from contracts.updates import Broken
from conversations.event_store.log import Log
from gateway.http.problem_responses import Refusal
from gateway.openapi.described import described
from gateway.runs.after_pause import AfterPause
from gateway.runs.fanout import Fanout
from gateway.runs.live_run import LiveRun
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
    """The registry of followed runs. One task ticks for all of them."""

    def __init__(self, bus: Bus, log: Log) -> None:
        self._bus = bus
        self._log = log
        self._fanout = Fanout(bus.traces)
        self._open: set[LiveRun] = set()
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
        behind: AfterPause | None = None,
        from_beginning: bool = False,
        publication: int = 1,
        after_version: int = 0,
    ) -> AsyncIterator[LiveRun]:
        """Follow a run from before its request is published, for the `publication`-th time, until the block
        ends; or `from_beginning`, wherever it stands: not begun, under way, or ended long ago.

        With `outputs` each ToolReturned has its output, and all updates come in the order of the canonical
        stream; of these only what is `behind` a wait, where one is given. `after_version`: where in the
        conversation it begins, as far as that is known. Raises Stopping, where `drain` would not see the run;
        BusUnavailable.
        """
        self.check()
        run_reader = RunReader(self._log, conversation_id, trace_id, after_version)
        run = LiveRun(
            self._bus.traces,
            run_reader,
            trace_id,
            streaming=streaming,
            outputs=outputs,
            behind=behind,
            clock=asyncio.get_running_loop(),
            publication=publication,
        )
        self._open.add(run)
        self._all_closed.clear()
        try:
            self._fanout.join(trace_id, run.deliver)
            if from_beginning:
                await run.catch_up()
            yield run
        finally:
            self._open.discard(run)
            if not self._open:
                self._all_closed.set()
            await self._fanout.leave(trace_id, run.deliver)
            await run.close()

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
async def accepts_runs(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """Guard: this process is not about to stop. Raises Refusal: 503."""
    connection.app.state.services.runs.check()
