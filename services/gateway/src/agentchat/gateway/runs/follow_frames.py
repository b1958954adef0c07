"""Follow runs: receive the frames of each and keep its updates for all readers of this gateway.

Frames are applied as they come, so that a slow reader delays nothing. Missing frames are fetched meanwhile,
first from TRACES, then from the log.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import NamedTuple

from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.bus.subscription import Subscription
from agentchat.bus.trace_channel import Traces
from agentchat.contracts import frames
from agentchat.contracts.stream_cursors import Cursor
from agentchat.contracts.timings import FOLLOW_SECONDS, SILENCE_SECONDS, STREAMS_DRAIN_SECONDS
from agentchat.contracts.updates import Broken, TextUpdate, Update
from agentchat.conversations.event_store.event_log import Log
from agentchat.gateway.http.problems import Refusal
from agentchat.gateway.runs.after_pause import AfterPause
from agentchat.gateway.runs.event_stream import RunFollower, UpdateQueue
from agentchat.gateway.runs.frames_to_updates import View
from agentchat.gateway.runs.run_from_log import RunReader, ShowsReasoning, hide_reasoning
from agentchat.gateway.runs.run_request import ViewKind
from agentchat.gateway.runs.sent_updates import CallOrder, Phase
from agentchat.gateway.runs.updates_after_cursor import ReadPosition, UpdateHistory
from agentchat.runtime import logs, metrics
from agentchat.runtime.postgres import DatabaseUnavailable

TICK_SECONDS = 1.0
_SILENT_AGAIN_SECONDS = 5.0
_SOON_SECONDS = 2.0
_REPAIR_SECONDS = 5.0

SHUTDOWN = Broken(
    "server_shutdown", "This server is stopping; the reply will be in the conversation.", local=True
)
TOO_LONG = Broken("deadline_exceeded", "The run took too long.", local=True)
_ELSEWHERE = Broken(
    "overloaded",
    "What the run waits for was stored by a newer release of the service. Try again.",
    local=True,
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

    async def _leave(self, run: "FollowedRun", follower: RunFollower) -> None:
        run.followers.remove(follower)
        if not run.followers:
            self._end(run)
            await run.close()

    def _begin(self, run: "FollowedRun") -> None:
        self._open[run] = None
        self._all_closed.clear()
        if run.can_be_joined:
            self._shared[run.key] = run

    def _end(self, run: "FollowedRun") -> None:
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


class RunKey(NamedTuple):
    """The run that is followed, and the kind of view; see `View`."""

    trace_id: str
    kind: ViewKind
    publication: int


class FollowedRun:
    """One subscription and one view, for all followers of a `key`.

    `from_beginning`: Earlier updates are read back, and followers may join later.
    """

    def __init__(self, traces: Traces, run_reader: RunReader, key: RunKey, *, from_beginning: bool) -> None:
        self.key = key
        self.view = View(key.kind, publication=key.publication)
        self.updates = UpdateHistory(has_outputs=key.kind.outputs) if from_beginning else UpdateQueue()
        self.followers: list[RunFollower] = []
        self._traces = traces
        self._reader = run_reader
        self._order = CallOrder() if key.kind.outputs else None
        self._clock = asyncio.get_running_loop()
        self._repairing: asyncio.Task[None] | None = None
        self._look_again = False  # something went missing during a repair
        began = self._clock.time()
        self._ends = began + FOLLOW_SECONDS
        self._look_at = began + SILENCE_SECONDS
        self._awaits_text_since = None if from_beginning or key.publication > 1 else began
        self._subscription: Subscription | None = None
        self._catching_up: asyncio.Task[None] | None = None

    async def follow(self) -> None:
        """Begin to follow the run: what is published from now on is seen. Raises BusUnavailable."""
        self._subscription = await self._traces.follow_trace(self.key.trace_id, self.deliver)
        if isinstance(self.updates, UpdateHistory):
            self._look(from_beginning=True)
            self._catching_up = self._repairing

    @property
    def can_be_joined(self) -> bool:
        """True if a new follower gets all updates: a run that ended only for this gateway may continue."""
        return isinstance(self.updates, UpdateHistory) and not self.updates.is_local

    def join(
        self,
        cursor: Cursor | None,
        after_pause: AfterPause | None,
        on_close: Callable[[RunFollower], Awaitable[None]],
    ) -> RunFollower:
        """Add a follower; the only one, unless the run is followed from its beginning."""
        history = self.updates
        position = ReadPosition(history, cursor) if isinstance(history, UpdateHistory) else history
        follower = RunFollower(self.view, position, after_pause, on_close)
        self.followers.append(follower)
        return follower

    async def wait_until_caught_up(self) -> None:
        """Return when earlier updates are in the list. Updates that cannot be read now come later."""
        if self._catching_up is not None:
            await asyncio.wait([self._catching_up])

    def deliver(self, frame: frames.Frame) -> None:
        """Apply a frame. Most are of an attempt (`orchestrator.run.channel.TraceChannel`).

        The orchestrator's inbox publishes Refused, the tool-runner the progress of calls.
        """
        if not self.view.misses_text:
            self._look_at = self._clock.time() + SILENCE_SECONDS
        self._put(self.view.feed(frame))
        if self.view.wants_repair or self.view.wants_log:
            self._look()

    def interrupt(self, broken: Broken) -> None:
        """End the stream here and now, whatever becomes of the run."""
        self._put(self.view.interrupt(broken))

    def tick(self, now: float) -> None:
        """Notice silence, and the end of the time for which a run is followed. Called once a second."""
        for follower in tuple(self.followers):
            if follower.on_tick is not None:
                follower.on_tick(now)
        if now >= self._ends:
            self.interrupt(TOO_LONG)
        elif now >= self._look_at:
            self._look(silent=True)

    def note_missed_frames(self) -> None:
        """Read back frames: the connection to NATS was away for a while."""
        self.view.wants_repair = True
        self._look()

    async def close(self) -> None:
        """Unsubscribe and stop reading back."""
        if self._subscription is not None:
            await self._subscription.close()
        if self._repairing is not None:
            self._repairing.cancel()
            await asyncio.wait([self._repairing])

    def _put(self, updates: list[Update]) -> None:
        if self._awaits_text_since is not None and any(isinstance(each, TextUpdate) for each in updates):
            metrics.FIRST_DELTA.observe(self._clock.time() - self._awaits_text_since)
            self._awaits_text_since = None
        if self._order is not None:
            updates = self._order.add(updates)
        self.updates.add(updates)
        if updates or self.view.phase is Phase.QUEUED:
            for follower in tuple(self.followers):
                follower.wake()

    def _look(self, *, silent: bool = False, from_beginning: bool = False) -> None:
        """Look for what is missing, unless that is under way; after a silence, look everywhere."""
        if self._repairing is not None:
            self._look_again = self._look_again or not silent
        elif not self.view.ended:
            self._repairing = asyncio.create_task(self._repair(silent, from_beginning))

    async def _repair(self, silent: bool, from_beginning: bool) -> None:
        """Look until nothing more has gone missing meanwhile."""
        try:
            await self._look_once(silent=silent, from_beginning=from_beginning)
            while self._look_again and not self.view.ended:
                self._look_again = False
                await self._look_once()
        except Exception:  # noqa: BLE001 - the outermost frame of a repair: there will be another
            self._look_at = self._clock.time() + _SOON_SECONDS
            logs.get_logger("gateway").exception("repair_failed", trace_id=self.key.trace_id)
        finally:
            self._repairing, self._look_again = None, False

    async def _look_once(self, *, silent: bool = False, from_beginning: bool = False) -> None:
        """Look in TRACES, and then in the log, as far as either is needed.

        A run that has ended, or waits, is in the log; of one under way TRACES has more. But TRACES may lack
        what came while it had no leader: who hears nothing further looks in the log too.
        """
        view, found_all = self.view, True
        if from_beginning:
            found_all = await self._look_in_log(ended=True)
        if not view.ended and (from_beginning or view.wants_repair or (silent and not view.misses_text)):
            found_all = await self._look_in_traces() and found_all
        needs_log = view.wants_log or silent or not found_all or (from_beginning and not view.started)
        if not view.ended and needs_log:
            found_all = await self._look_in_log() and found_all
        if view.misses_text or not found_all or not (silent or from_beginning):
            self._look_at = self._clock.time() + _SOON_SECONDS
        elif silent:
            self._look_at = self._clock.time() + _SILENT_AGAIN_SECONDS

    async def _look_in_traces(self) -> bool:
        """Take what TRACES has; False if it does not answer."""
        try:
            async with asyncio.timeout(_REPAIR_SECONDS):
                found = await self._traces.read_frames(self.key.trace_id)
        except (BusUnavailable, TimeoutError):
            return False
        self._put(self.view.feed_all(found))
        return True

    async def _look_in_log(self, *, ended: bool = False) -> bool:
        """Take what the log has; with `ended`, only if the run has ended or waits.

        False if the log is away.
        """
        had_started = self.view.started
        try:
            async with asyncio.timeout(_REPAIR_SECONDS):
                run = await self._reader.read()
        except (DatabaseUnavailable, TimeoutError):
            return False
        if self._reader.shows_reasoning is False:
            self.view.hide_reasoning()
        if self._reader.erased:
            self._put(self.view.feed_erased())
        elif run is None and not had_started:
            pass  # it may have begun since the log was read
        elif not ended or (run is not None and (run.state != "running" or run.pending)):
            self._put(self.view.feed_log(run))
            if self.view.phase is Phase.PAUSED and not self._reader.is_readable:
                self.interrupt(_ELSEWHERE)  # another gateway may be able to read what it waits for
        return True
