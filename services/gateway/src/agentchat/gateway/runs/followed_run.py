"""Follow one run: receive its frames and keep its updates for all readers of this gateway.

Frames are applied as they come, so that a slow reader delays nothing. Missing frames are fetched meanwhile,
first from TRACES, then from the log.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from msgspec.structs import replace

from agentchat.bus.errors import BusUnavailable
from agentchat.bus.subscription import Subscription
from agentchat.bus.traces import Traces
from agentchat.contracts import events, frames
from agentchat.contracts.stream_cursors import Cursor
from agentchat.contracts.timings import FOLLOW_SECONDS, SILENCE_SECONDS
from agentchat.contracts.updates import Broken, TextUpdate, Update
from agentchat.conversations.aggregate.canonical_stream import has_reasoning
from agentchat.conversations.aggregate.conversation import Conversation, Run, evolve_all
from agentchat.conversations.aggregate.rounds import Round
from agentchat.conversations.event_store.log import Log, iterate_in_turns
from agentchat.conversations.event_store.mapper import decode_readable
from agentchat.gateway.runs.after_pause import AfterPause
from agentchat.gateway.runs.frame_position import Phase
from agentchat.gateway.runs.progress import CallOrder
from agentchat.gateway.runs.run_request import ViewKind
from agentchat.gateway.runs.run_updates import ReadPosition, UpdateHistory, UpdateQueue
from agentchat.gateway.runs.view import View
from agentchat.runtime import logs, metrics
from agentchat.runtime.postgres import DatabaseUnavailable

_SILENT_AGAIN_SECONDS = 5.0
_SOON_SECONDS = 2.0
_REPAIR_SECONDS = 5.0

ShowsReasoning = Callable[[str], Awaitable[bool]]
"""Whether an agent shows its model's reasoning now, by the agent's id."""


async def hide_reasoning(_agent_id: str) -> bool:
    """Return False: the reader takes no reasoning."""
    return False


TOO_LONG = Broken("deadline_exceeded", "The run took too long.", local=True)
_ELSEWHERE = Broken(
    "overloaded",
    "What the run waits for was stored by a newer release of the service. Try again.",
    local=True,
)


class RunKey(NamedTuple):
    """The run that is followed, and the kind of view; see `View`."""

    trace_id: str
    kind: ViewKind
    publication: int


class FollowedRun:
    """One subscription and one view, for all followers of a `key`.

    `from_beginning`: Earlier updates are read back, and followers may join later.
    """

    def __init__(self, traces: Traces, run_reader: "RunReader", key: RunKey, *, from_beginning: bool) -> None:
        self.key = key
        self.view = View(key.kind, publication=key.publication)
        self.updates = UpdateHistory(has_outputs=key.kind.outputs) if from_beginning else UpdateQueue()
        self.followers: list[RunFollower] = []
        self._traces = traces
        self._log = run_reader
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
        on_close: Callable[["RunFollower"], Awaitable[None]],
    ) -> "RunFollower":
        """Add a follower; the only one, unless the run is followed from its beginning."""
        history = self.updates
        position = ReadPosition(history, cursor) if isinstance(history, UpdateHistory) else history
        follower = RunFollower(self.view, position, after_pause, on_close)
        self.followers.append(follower)
        return follower

    async def wait_until_caught_up(self) -> None:
        """Return when earlier updates are in the list. Those that cannot be read now come later."""
        if self._catching_up is not None:
            await asyncio.wait([self._catching_up])

    def deliver(self, frame: frames.Frame) -> None:
        """Apply a frame, as `orchestrator.run` published it."""
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
                run = await self._log.read()
        except (DatabaseUnavailable, TimeoutError):
            return False
        if self._log.shows_reasoning is False:
            self.view.hide_reasoning()
        if self._log.erased:
            self._put(self.view.feed_erased())
        elif run is None and not had_started:
            pass  # it may have begun since the log was read
        elif not ended or (run is not None and (run.state != "running" or run.pending)):
            self._put(self.view.feed_log(run))
            if self.view.phase is Phase.PAUSED and not self._log.is_readable:
                self.interrupt(_ELSEWHERE)  # another gateway may be able to read what it waits for
        return True


class RunFollower:
    """One reader of a run: `take` what there is, `wait` for more, close with `aclose`.

    `gone` is set when its client has left. `on_tick` is called about once a second.
    """

    __slots__ = ("_after_pause", "_changed", "_on_close", "_updates", "_view", "gone", "on_tick")

    def __init__(
        self,
        view: View,
        updates: UpdateQueue | ReadPosition,
        after_pause: AfterPause | None = None,
        on_close: Callable[["RunFollower"], Awaitable[None]] | None = None,
    ) -> None:
        self.gone = False
        self.on_tick: Callable[[float], None] | None = None
        self._on_close = on_close
        self._view = view
        self._updates = updates
        self._after_pause = after_pause
        self._changed = asyncio.Event()

    @property
    def started(self) -> bool:
        """True if the user's message is saved."""
        return self._view.started

    @property
    def waiting(self) -> bool:
        """True if the request is queued behind another run of its conversation."""
        return self._view.phase is Phase.QUEUED

    @property
    def refused(self) -> bool:
        """True if a worker has refused the request, so that its run never starts."""
        return self._view.phase is Phase.REFUSED

    @property
    def ended(self) -> bool:
        """True if the last update can be taken, or was taken."""
        return self._updates.ended

    @property
    def position(self) -> ReadPosition:
        """The reader's position, in a run that is followed from its beginning."""
        assert isinstance(self._updates, ReadPosition)
        return self._updates

    def take(self) -> list[Update]:
        """Return the updates since the last call."""
        updates = self._updates.take()
        return updates if self._after_pause is None else self._after_pause.take_rest(updates)

    async def wait(self) -> None:
        """Return when there may be something to take, or `gone` was set, or `wake` was called."""
        await self._changed.wait()
        self._changed.clear()

    def wake(self) -> None:
        """End the wait that is under way, or the next one."""
        self._changed.set()

    def leave(self) -> None:
        """Note that the client has left."""
        self.gone = True
        self.wake()

    async def aclose(self) -> None:
        """Stop following the run, once."""
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            await on_close(self)


class RunReader:
    """A run as the log has it. Each `read` costs only what is new in the run, and nothing after its end.

    after_version: The version after which the run begins in its conversation; 0 if unknown.
    erased: The conversation was found to be erased.
    is_readable: All events of the run so far could be decoded.
    shows_reasoning: The agent shows the reasoning that the run has; None while the run has none.
    """

    def __init__(
        self,
        log: Log,
        conversation_id: str,
        trace_id: str,
        after_version: int = 0,
        shows_reasoning: ShowsReasoning = hide_reasoning,
    ) -> None:
        self.erased = False
        self.shows_reasoning: bool | None = None
        self._ask_agent = shows_reasoning
        self._log = log
        self._trace_id = trace_id
        self._version = after_version
        self._conversation = Conversation(conversation_id=conversation_id)
        self.is_readable = True

    async def read(self) -> Run | None:
        """Return the run up to now; None if the log has none. Raises DatabaseUnavailable.

        Only events of the run's own trace are used, since the conversation may belong to another account.
        """
        run = await self._read_run()
        if self.shows_reasoning is None and run is not None and has_reasoning(run):
            self.shows_reasoning = await self._ask_agent(run.agent_id)
        return run

    async def _read_run(self) -> Run | None:
        known = self._run()
        if known is not None and known.state != "running":
            return known
        rows = await self._log.read_run_rows(
            self._conversation.conversation_id, self._trace_id, self._version
        )
        new: list[events.Event] = []
        is_readable = True
        async for row in iterate_in_turns(rows):
            found, all_of_it = decode_readable([(row.topic, row.state)])
            new += found
            is_readable = is_readable and all_of_it
        if rows:
            self._version = rows[-1].version
        self.is_readable = self.is_readable and is_readable
        self.erased = self.erased or any(isinstance(event, events.ConversationErased) for event in new)
        own = [event for event in new if event.trace_id == self._trace_id]
        self._conversation = evolve_all(self._conversation, own)
        return self._run()

    def _run(self) -> Run | None:
        """Return the run; without its rounds if an event could not be decoded, since it may hold text."""
        run = self._conversation.run(self._trace_id)
        if run is None or self.is_readable:
            return run
        known = (Round(number=1, text=run.reply.content),) if run.reply is not None else ()
        return replace(run, rounds=known, sources=None)
