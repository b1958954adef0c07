"""A run as one reader in this gateway follows it: frames come in, updates wait to be taken.

Frames are worked in as they come, so that a slow reader holds up nothing; what waits for him is bounded by
joining the pieces of text. Missing frames are fetched next to it, first from TRACES, then from the log.
"""

import asyncio
from collections.abc import Coroutine

from bus import BusUnavailable, Traces
from contracts import frames
from contracts.timings import FOLLOW_SECONDS, SILENCE_SECONDS
from contracts.updates import Broken, Text, Update, Waiting
from gateway.runs.after_pause import AfterPause
from gateway.runs.call_order import CallOrder
from gateway.runs.run_reader import RunReader
from gateway.runs.view import View
from gateway.runs.wake import Followed
from runtime import logs
from runtime.postgres import DatabaseUnavailable

_SILENT_AGAIN_SECONDS = 5.0
_SOON_SECONDS = 2.0
_REPAIR_SECONDS = 5.0
_WAITING_UPDATES = 256
_WAITING_CHARACTERS = 64 * 1024

TOO_LONG = Broken("deadline_exceeded", "The run took too long.", local=True)
_ELSEWHERE = Broken(
    "overloaded",
    "What the run waits for was stored by a newer release of the service. Try again.",
    local=True,
)


class LiveRun(Followed):
    """The reader's side: `take` what there is, `wait` for more. `waiting`: the request stands in line."""

    def __init__(
        self,
        traces: Traces,
        run_reader: RunReader,
        trace_id: str,
        *,
        streaming: bool,
        outputs: bool = False,
        behind: AfterPause | None = None,
        clock: asyncio.AbstractEventLoop,
        publication: int = 1,
    ) -> None:
        super().__init__()
        self.trace_id = trace_id
        self.waiting = False
        self._traces = traces
        self._log = run_reader
        self._clock = clock
        self._view = View(streaming=streaming, outputs=outputs, publication=publication)
        self._order = CallOrder() if outputs else None
        self._behind = behind
        self._updates: list[Update] = []
        self._more: list[str] = []  # text after the last of these, which is text
        self._characters = 0
        self._repairing: asyncio.Task[None] | None = None
        self._look_again = False  # something went missing during a repair
        self._ends = clock.time() + FOLLOW_SECONDS
        self._look_at = clock.time() + SILENCE_SECONDS

    @property
    def started(self) -> bool:
        """Whether the user's message is saved."""
        return self._view.started

    @property
    def ended(self) -> bool:
        """Whether the last update was put."""
        return self._view.ended

    @property
    def refused(self) -> bool:
        """Whether a worker has refused the request, so that its run never begins."""
        return self._view.refused

    async def catch_up(self) -> None:
        """Take what was said and stored before this reader came; what cannot be had now comes later."""
        await self._until_repaired()
        if not self._view.ended:
            self._begin(self._read_back())
            await self._until_repaired()

    def take(self) -> list[Update]:
        """What has come since the last call."""
        self._join()
        taken, self._updates = self._updates, []
        self._characters = 0
        return taken

    def deliver(self, frame: frames.Frame) -> None:
        """Work one frame in."""
        if not self._view.blind:
            self._look_at = self._clock.time() + SILENCE_SECONDS
        self._put(self._view.feed(frame))
        if self._view.wants_repair or self._view.wants_log:
            self._look()

    def interrupt(self, broken: Broken) -> None:
        """End it here and now, whatever becomes of the run."""
        if not self._view.ended:
            self._view.ended = True
            self._put([broken])

    def tick(self, now: float) -> None:
        """Once a second: notice silence and the end of all patience. `on_tick` is the reader's own."""
        if self.on_tick is not None:
            self.on_tick(now)
        if now >= self._ends:
            self.interrupt(TOO_LONG)
        elif now >= self._look_at:
            self._look(silent=True)

    def missed_frames(self) -> None:
        """The connection to NATS was away for a while."""
        self._view.wants_repair = True
        self._look()

    async def close(self) -> None:
        """Stop looking."""
        self.gone = True
        if self._repairing is not None:
            self._repairing.cancel()
            await asyncio.wait([self._repairing])

    def _put(self, updates: list[Update]) -> None:
        if self._order is not None:
            updates = self._order.add(updates)
        if self._behind is not None:
            updates = self._behind.rest(updates)
        for update in updates:
            if isinstance(update, Text):
                self._characters += len(update.text)
                if self._is_full() and isinstance(self._updates[-1], Text):
                    self._more.append(update.text)
                    continue
            elif isinstance(update, Waiting):
                self.waiting = True
            self._join()
            self._updates.append(update)
        if updates and (self._view.ended or self.on_updates is None or not self.on_updates()):
            self._wake.set()

    def _join(self) -> None:
        """Add what was held back to the last piece of text, all at once: piece by piece is quadratic."""
        if self._more and isinstance(last := self._updates[-1], Text):
            self._updates[-1] = Text("".join((last.text, *self._more)))
            self._more.clear()

    def _is_full(self) -> bool:
        return len(self._updates) > 1 and (
            len(self._updates) >= _WAITING_UPDATES or self._characters >= _WAITING_CHARACTERS
        )

    def _look(self, *, silent: bool = False) -> None:
        """Look for what is missing, unless somebody looks already; after a silence, look everywhere."""
        if self._repairing is not None:
            self._look_again = self._look_again or not silent
        elif not self._view.ended:
            self._begin(self._repair(silent))

    def _begin(self, repair: Coroutine[None, None, None]) -> None:
        self._repairing = asyncio.create_task(repair)
        self._repairing.add_done_callback(self._repaired)

    async def _until_repaired(self) -> None:
        while (repairing := self._repairing) is not None:
            await asyncio.wait([repairing])
            await asyncio.sleep(0)  # `_repaired` comes next

    async def _read_back(self) -> None:
        """A run that has ended, or waits, is in the log; of one under way TRACES has more."""
        found_all = await self._look_in_log(ended=True)
        if not self._view.ended:
            found_all = await self._look_in_traces() and found_all
        if not self._view.ended and (self._view.wants_log or not self._view.started):
            found_all = await self._look_in_log() and found_all
        if self._view.blind or not found_all:
            self._look_at = self._clock.time() + _SOON_SECONDS

    async def _repair(self, silent: bool) -> None:
        view, found_all = self._view, True
        if view.wants_repair or (silent and not view.blind):
            found_all = await self._look_in_traces()
        if not view.ended and (view.wants_log or silent or not found_all):
            found_all = await self._look_in_log() and found_all
        soon = view.blind or not found_all
        self._look_at = self._clock.time() + (_SOON_SECONDS if soon else _SILENT_AGAIN_SECONDS)

    async def _look_in_traces(self) -> bool:
        """Take what TRACES has; False if it cannot be asked."""
        try:
            async with asyncio.timeout(_REPAIR_SECONDS):
                found = await self._traces.frames_of(self.trace_id)
        except (BusUnavailable, TimeoutError):
            return False
        self._put(self._view.feed_all(found))
        return True

    async def _look_in_log(self, *, ended: bool = False) -> bool:
        """Take what the log has, if it has `ended`, or waits, where that is asked; False if it cannot be."""
        try:
            async with asyncio.timeout(_REPAIR_SECONDS):
                run = await self._log.read()
        except (DatabaseUnavailable, TimeoutError):
            return False
        if self._log.erased:
            self._put(self._view.feed_erased())
        elif not ended or (run is not None and (run.state != "running" or run.pending)):
            self._put(self._view.feed_log(run))
            if self._view.paused and not self._log.whole:
                self.interrupt(_ELSEWHERE)  # another gateway may be able to read what it waits for
        return True

    def _repaired(self, task: "asyncio.Task[None]") -> None:
        self._repairing = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._look_at = self._clock.time() + _SOON_SECONDS
            logs.get_logger("gateway").error("repair_failed", trace_id=self.trace_id, exc_info=error)
        elif self._look_again and not self.gone:
            self._look_again = False
            self._look()
