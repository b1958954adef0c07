"""Doing to the running stack what the plan says, and undoing it."""

import asyncio
import contextlib
import signal
from collections.abc import Mapping, Sequence
from typing import get_args

from redis import exceptions
from redis.asyncio import Redis

from tests.chaos.plan import Blow
from tests.chaos.processes import Kept
from tests.chaos.records import Fault
from tests.chaos.rig import Rig
from tests.support.proxy import Mode

_MODES: Mapping[str, Mode] = {mode: mode for mode in get_args(Mode)}
_EAT_SECONDS = 15.0
_AIM_SECONDS = 15.0


class Nemesis:
    """`faults` is what was done, in the order in which it began."""

    def __init__(self, rig: Rig) -> None:
        self.faults: list[Fault] = []
        self._rig = rig
        self._kept = rig.kin.kept
        self._proxies = rig.proxies
        self._clock = rig.clock
        self._healing: set[asyncio.Task[None]] = set()

    async def run(self, blows: Sequence[Blow]) -> None:
        """Each at its time; returns when the last one has been healed."""
        async with asyncio.TaskGroup() as group:
            for blow in blows:
                group.create_task(self._strike(blow))

    async def _strike(self, blow: Blow) -> None:
        await asyncio.sleep(max(0.0, blow.at - self._clock.now()))
        await self._aim(blow)
        fault = Fault(kind=blow.kind, target=blow.target, at=self._clock.now())
        self.faults.append(fault)
        try:
            if blow.kind in _MODES:
                await self._cut(fault, blow.seconds)
            elif blow.kind == "flush":
                fault.hit = await self._flush()
            else:
                await self._hurt(fault, blow.seconds)
        finally:
            fault.until = self._clock.now()

    async def _aim(self, blow: Blow) -> None:
        """Wait until there is something to hit: what is down already cannot fail."""
        kept, proxy = self._kept.get(blow.target), self._proxies.get(blow.target)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_AIM_SECONDS):
                while (kept and kept.pid is None) or (proxy and not proxy.connected):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)

    async def _hurt(self, fault: Fault, seconds: float) -> None:
        """Stop a process, or end it and keep it down."""
        kept = self._kept[fault.target]
        if fault.kind == "stop":
            fault.hit = kept.signal(signal.SIGSTOP)
            await asyncio.sleep(seconds)
            kept.signal(signal.SIGCONT)
            return
        before = len(kept.became_ready)
        kept.hold(wipe=self._rig.folder.nats if fault.kind == "wipe" else None)
        fault.hit = kept.signal(signal.SIGTERM if fault.kind == "term" else signal.SIGKILL)
        await asyncio.sleep(seconds)
        kept.release()
        self._healing.add(asyncio.create_task(self._note_ready(fault, kept, before)))

    async def _note_ready(self, fault: Fault, kept: Kept, before: int) -> None:
        with contextlib.suppress(TimeoutError):
            fault.ready = await kept.wait_ready_again(before, 60)

    async def _cut(self, fault: Fault, seconds: float) -> None:
        proxy = self._proxies[fault.target]
        eaten, used = proxy.eaten, proxy.used
        connected = await proxy.set_mode(_MODES[fault.kind])
        if fault.kind == "eat":
            fault.hit = await proxy.wait_eaten(eaten, _EAT_SECONDS)
            return
        await asyncio.sleep(seconds)
        fault.hit = connected > 0 or proxy.used > used
        await proxy.set_mode("pass")

    async def _flush(self) -> bool:
        async with Redis.from_url(self._rig.environment.redis_url, socket_timeout=1) as redis:
            try:
                await empty_counters(redis)
            except (exceptions.ConnectionError, exceptions.TimeoutError, OSError):
                return False
            return True

    async def heal(self) -> None:
        """Whatever is still broken."""
        for proxy in self._proxies.values():
            await proxy.set_mode("pass")
        for kept in self._kept.values():
            kept.release()
            kept.signal(signal.SIGCONT)
        if self._healing:
            await asyncio.wait(self._healing, timeout=60)


async def empty_counters(redis: Redis) -> None:
    """Expire every counter of the limits. An operator may neither FLUSHALL nor DEL."""
    async for key in redis.scan_iter("limits:*", count=1000):
        await redis.pexpire(key, 0)
