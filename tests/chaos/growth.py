"""What a process of a stack holds, and whether that grows: pure but for `sample`."""

import asyncio
import functools
import multiprocessing
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import httpx
import msgspec
import psutil

from tests.chaos.processes import Kept

MIB_PER_10_000 = 1.0
SPARE = 4
"""What may be more at the end than at the beginning: a pool that had not opened all of its connections."""
_SECONDS = 5.0


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Of one process, or of one server's connections, when nothing is under way."""

    name: str
    requests: int
    mib: float = 0.0
    files: int = 0
    sockets: int = 0
    tasks: int = 0
    subscriptions: int = 0


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """Memory as the slope of a straight line through all samples; counts as the most of the first third and
    as the last sample's, at rest: what a pool opens it has closed by then, and what leaks is still there.
    """

    name: str
    mib_first: float
    mib_last: float
    mib_per_10_000: float
    counts: dict[str, tuple[int, int]]

    def problems(self) -> list[str]:
        """What is not flat."""
        found = [f"{what} grew from {a} to {b}" for what, (a, b) in self.counts.items() if b > a + SPARE]
        if self.mib_per_10_000 > MIB_PER_10_000:
            found.append(f"memory grew by {self.mib_per_10_000:.2f} MiB each 10,000 requests")
        return [f"{self.name}: {problem}" for problem in found]


async def sample(name: str, kept: Kept, requests: int, tasks: Path) -> Sample:
    """Of a process that counts its tasks into `tasks`. Raises psutil.Error, TimeoutError."""
    process = psutil.Process(kept.pid)
    process.send_signal(signal.SIGUSR1)
    async with asyncio.timeout(_SECONDS):
        while (count := _taken(tasks)) is None:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.02)
    holding = asyncio.get_running_loop().run_in_executor(_elsewhere(), _held, process.pid)
    mib, files, sockets = await holding
    return Sample(name=name, requests=requests, mib=mib, files=files, sockets=sockets, tasks=count)


@functools.cache
def _elsewhere() -> ProcessPoolExecutor:
    """Who looks at processes: this one measures delays meanwhile, and thousands of sockets take 0.2 s."""
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))


def _held(pid: int) -> tuple[float, int, int]:
    """MiB, files and sockets."""
    process = psutil.Process(pid)
    return round(process.memory_info().rss / 2**20, 2), process.num_fds(), len(process.net_connections())


def _taken(tasks: Path) -> int | None:
    """What another process has written, by rename; it is read once."""
    if not tasks.exists():
        return None
    count = int(tasks.read_text())
    tasks.unlink()
    return count


async def sample_nats(monitor_port: int, requests: int) -> Sample:
    """Connections and subscriptions of all clients (NATS docs, "Monitoring", /connz and /subsz)."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{monitor_port}", trust_env=False) as monitor:
        connections = (await monitor.get("/connz")).json()["num_connections"]
        subscriptions = (await monitor.get("/subsz")).json()["num_subscriptions"]
    return Sample(name="nats clients", requests=requests, sockets=connections, subscriptions=subscriptions)


def growths(samples: Sequence[Sample]) -> list[Growth]:
    """Of each name, by its samples in their order; the first quarter, in which caches fill, is left out."""
    names = dict.fromkeys(each.name for each in samples)
    return [_growth(name, [each for each in samples if each.name == name]) for name in names]


def _growth(name: str, samples: list[Sample]) -> Growth:
    steady = samples[len(samples) // 4 :]
    first, last = steady[0], steady[-1]
    third = max(1, len(steady) // 3)
    kinds = ("files", "sockets", "tasks", "subscriptions")
    return Growth(
        name=name,
        mib_first=first.mib,
        mib_last=last.mib,
        mib_per_10_000=round(slope([(each.requests, each.mib) for each in steady]) * 10_000, 3),
        counts={
            kind: (max(getattr(each, kind) for each in steady[:third]), getattr(last, kind)) for kind in kinds
        },
    )


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the straight line with the least squares; 0 for fewer than two points."""
    count = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / max(count, 1), sum(y for _, y in points) / max(count, 1)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
