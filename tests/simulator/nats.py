"""NATS, as far as the bus uses it: work queues that deliver again, and what TRACES keeps.

It does what was measured of nats-server: an acknowledgement counts from whichever delivery it comes, ids of
acknowledged messages are forgotten by a restart, and core messages are lost to who is away. With a full disk
it stores nothing and still passes on what is said. After its restart what was acknowledged meanwhile is
there again, and nobody knows that it was delivered.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from agentchat.contracts import frames
from agentchat.contracts.tool_messages import ToolFinished
from tests.simulator.plan import Fault
from tests.simulator.process import Process, Server
from tests.simulator.world import World

ACK_SECONDS = 10.0
MAX_DELIVER = 50
_BEAT_SECONDS = 3.0
_NAK_SECONDS = (1.0, 2.0, 5.0, 10.0)


class Stored:
    """A message of a work queue."""

    __slots__ = ("data", "deliveries", "due", "message_id", "sequence", "subject")

    def __init__(self, sequence: int, subject: str, data: bytes, message_id: str) -> None:
        self.sequence = sequence
        self.subject = subject
        self.data = data
        self.message_id = message_id
        self.deliveries = 0
        self.due = 0.0


class Queue:
    """One stream with its consumer."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.messages: dict[int, Stored] = {}
        self.consumers: list[Consumption] = []
        self._world = world
        self.published: list[tuple[str, bytes]] = []
        self.handed_out: list[tuple[float, bytes]] = []
        self.full = False
        self._unsaved: dict[int, Stored] = {}
        self._ids: dict[str, int] = {}
        self._sequence = 0

    def publish(self, subject: str, data: bytes, message_id: str) -> None:
        """Store, unless the id is known."""
        if message_id in self._ids:
            return
        self.published.append((subject, data))
        self._sequence += 1
        self._ids[message_id] = self._sequence
        self.messages[self._sequence] = Stored(self._sequence, subject, data, message_id)
        self.pump()

    def restart(self) -> None:
        """The ids are read from what is still stored."""
        if self.full:
            self.messages |= self._unsaved
            self._unsaved.clear()
            for stored in self.messages.values():
                stored.deliveries, stored.due = 0, 0.0
        self._ids = {stored.message_id: stored.sequence for stored in self.messages.values()}

    def wipe(self) -> None:
        """Everything is gone."""
        self.messages.clear()
        self._unsaved.clear()
        self._ids.clear()

    def pump(self) -> None:
        """Give what is due to whoever has a free slot."""
        world = self._world
        for stored in tuple(self.messages.values()):
            if stored.due > world.now or stored.deliveries >= MAX_DELIVER:
                continue
            free = [each for each in self.consumers if each.free and each.process.reached]
            if not free:
                return
            taker = free[world.rng.randrange(len(free))] if len(free) > 1 else free[0]
            stored.deliveries += 1
            stored.due = world.now + ACK_SECONDS
            self.handed_out.append((world.now, stored.data))
            world.at(stored.due, self.pump)
            world.note(f"{self.name} {stored.sequence} to {taker.process.name}, delivery {stored.deliveries}")
            taker.give(Delivery(self, taker.process, stored))

    def settle(self, sequence: int, word: str, delay: float) -> None:
        """An acknowledgement of one of the deliveries has arrived."""
        stored = self.messages.get(sequence)
        if stored is None:
            return
        self._world.note(f"{self.name} {sequence} {word} {delay:g}")
        if word in ("ack", "term"):
            del self.messages[sequence]
            if self.full:
                self._unsaved[sequence] = stored
        elif word == "nak":
            stored.due = self._world.now + delay
            self._world.at(stored.due, self.pump)
        else:
            stored.due = self._world.now + ACK_SECONDS
            self._world.at(stored.due, self.pump)


class Delivery:
    """Stand in for `bus.queue_consumer.QueueDelivery`."""

    def __init__(self, queue: Queue, process: Process, stored: Stored) -> None:
        self.subject = stored.subject
        self.data = stored.data
        self.headers: dict[str, str] = {}
        self.attempt = stored.deliveries
        self.sequence = stored.sequence
        self.settled = False
        self.slot_freed = False
        self._queue = queue
        self._process = process

    def free_slot(self) -> None:
        self.slot_freed = True
        self._queue.pump()

    async def ack(self, *, at_once: bool = False) -> None:
        self._settle("ack")

    async def nak(self, delay: float = 0.0) -> None:
        self._settle("nak", delay)

    async def terminate(self) -> None:
        self._settle("term")

    async def extend(self) -> None:
        if not self.settled:
            self._say("working", 0.0)

    def _settle(self, word: str, delay: float = 0.0) -> None:
        if not self.settled:
            self.settled = True
            self._say(word, delay)

    def _say(self, word: str, delay: float) -> None:
        process = self._process
        when = process.sends(f"{word} of {self._queue.name} {self.sequence}")
        if when is not None and process.nats.up:
            world = process.world
            world.at(when + world.latency(), self._queue.settle, self.sequence, word, delay)


class Consumption:
    """What stands for `Bus.consume`: as many handlers at a time as there are slots."""

    def __init__(
        self, process: Process, queue: Queue, handle: Callable[[Any], Awaitable[None]], slots: int
    ) -> None:
        self.process = process
        self._queue = queue
        self._handle = handle
        self._slots = slots
        self._coming = 0
        self._running: dict[asyncio.Task[Any], Delivery] = {}
        self._none = asyncio.Event()

    @property
    def free(self) -> bool:
        used = sum(not delivery.slot_freed for delivery in self._running.values())
        return self._coming + used < self._slots

    def give(self, delivery: Delivery) -> None:
        self._coming += 1
        world = self.process.world
        world.at(world.now + world.latency(), self.process.loop.call_soon, self._start, delivery)

    async def run(self, stop: asyncio.Event) -> None:
        """Take messages until `stop` is set, then wait for the handlers."""
        self._queue.consumers.append(self)
        self.process.on_death.append(self._leave)
        beating = self.process.spawn(self._beat())
        self._queue.pump()
        try:
            await stop.wait()
            self._leave()
            while self._running:
                self._none.clear()
                await self._none.wait()
        finally:
            beating.cancel()

    def _leave(self) -> None:
        if self in self._queue.consumers:
            self._queue.consumers.remove(self)

    def _start(self, delivery: Delivery) -> None:
        self._coming -= 1
        work = self._run(delivery) if self in self._queue.consumers else delivery.nak()
        task = self.process.spawn(work)
        self._running[task] = delivery
        task.add_done_callback(self._finish_task)

    def _finish_task(self, task: "asyncio.Task[Any]") -> None:
        del self._running[task]
        if not self._running:
            self._none.set()
        self._queue.pump()

    async def _run(self, delivery: Delivery) -> None:
        try:
            await self._handle(delivery)
            await delivery.ack()
        except asyncio.CancelledError:
            await delivery.nak()
            raise
        except Exception:  # noqa: BLE001 - as the bus does
            await delivery.nak(_NAK_SECONDS[min(delivery.attempt, len(_NAK_SECONDS)) - 1])

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            for delivery in tuple(self._running.values()):
                await delivery.extend()


class RunFollower:
    """One who hears what is said on a subject, in its order."""

    __slots__ = ("closed", "deliver", "hears_at", "process")

    def __init__(self, process: Process, deliver: Callable[[Any], None]) -> None:
        self.process = process
        self.deliver = deliver
        self.hears_at = 0.0
        self.closed = False

    async def close(self) -> None:
        self.closed = True

    def hear(self, message: Any) -> None:
        if not self.closed:
            self.deliver(message)


class Nats(Server):
    """The server: queues, what TRACES keeps, and who follows what."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.requests = Queue(world, "REQUESTS")
        self.tools = Queue(world, "TOOLS")
        self.frames: dict[str, list[frames.Frame]] = {}
        self.results: dict[str, dict[str, ToolFinished]] = {}
        self.cancels: set[str] = set()
        self.full = False
        self.followers: dict[str, list[RunFollower]] = {}
        self._frame = 0
        self._fates = {int(fault.at): fault for fault in world.plan.faults if fault.kind.startswith("frame")}

    def wipe(self) -> None:
        """The store is gone."""
        self.requests.wipe()
        self.tools.wipe()
        self.frames.clear()
        self.results.clear()
        self.cancels.clear()

    def fill(self) -> None:
        """Its disk is full from now on."""
        self.full = self.requests.full = self.tools.full = True

    def restart(self) -> None:
        """It is back, with room on its disk."""
        self.requests.restart()
        self.tools.restart()
        self.full = self.requests.full = self.tools.full = False

    def follow(self, process: Process, subject: str, deliver: Callable[[Any], None]) -> RunFollower:
        followers = self.followers.setdefault(subject, [])
        followers[:] = [each for each in followers if not each.closed and each.process.alive]
        follower = RunFollower(process, deliver)
        followers.append(follower)
        return follower

    def publish_frame(self, process: Process, trace_id: str, frame: frames.Frame) -> None:
        """Keep a frame and pass it on; lost where NATS is not reached."""
        self._frame += 1
        fate = self._fates.get(self._frame)
        when = process.sends(f"frame {type(frame).__name__} {frame.attempt}.{frame.seq}")
        world = self.world
        world.note(f"{process.name} says {_describe_frame(frame)} of {trace_id[-2:]}")
        if when is None or not process.nats.up:
            world.note("  it is lost")
            return
        if fate is not None:
            world.note(f"FAULT {fate.kind}")
        if when > world.now:
            world.at(when, self._arrive, trace_id, frame, fate)
        else:
            self._arrive(trace_id, frame, fate)

    def _arrive(self, trace_id: str, frame: frames.Frame, fate: Fault | None) -> None:
        self.frames.setdefault(trace_id, []).append(frame)
        kind = None if fate is None else fate.kind
        if kind != "frame_lost":
            self.tell(trace_id, frame, late=fate.seconds if fate is not None else 0.0)
        if kind == "frame_twice":
            self.tell(trace_id, frame, late=0.001)

    def tell(self, subject: str, message: Any, *, late: float = 0.0) -> None:
        """Pass a message on to who follows its subject now; `late` ones come after others."""
        world = self.world
        for follower in self.followers.get(subject, ()):
            if follower.closed or not follower.process.reached:
                continue
            when = world.now + world.latency()
            if late:
                when += late
            else:
                when = follower.hears_at = max(when, follower.hears_at)
            world.at(when, follower.process.loop.call_soon, follower.hear, message)


def _describe_frame(frame: frames.Frame) -> str:
    text = f" {frame.text!r}" if isinstance(frame, frames.DeltaFrame) else ""
    offset = f" after {frame.offset}" if isinstance(frame, frames.Resumed) else ""
    return f"{type(frame).__name__} {frame.attempt}.{frame.seq}{text}{offset}"
