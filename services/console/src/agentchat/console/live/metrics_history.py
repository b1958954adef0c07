"""Scrape the metrics of all services for the page Now, and keep them for an hour."""

import asyncio
import contextlib
import socket
import time
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from urllib.parse import urlsplit, urlunsplit

import msgspec

from agentchat.console.live.metrics_scraper import Scrape, compute_quantile, scrape
from agentchat.contracts.values import Usage
from agentchat.runtime import logs

EVERY_SECONDS = 15.0
KEPT_SECONDS = 3600.0
RECENT_SECONDS = 900.0
ENDS = ("completed", "failed", "cancelled")
TOKEN_KINDS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_tokens": "cache_read",
    "cache_creation_tokens": "cache_write",
}


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """The events in the `seconds` before `at`, on the monotonic clock.

    First deltas are in seconds. `model_errors` counts failed calls of providers by "provider: kind".
    """

    at: float
    seconds: float
    ended: dict[str, float]
    first_delta_p50: float | None
    first_delta_p99: float | None
    tokens: Usage
    model_errors: dict[str, float]


class WorkerSlots(msgspec.Struct, frozen=True, kw_only=True):
    """The slots of all workers, the memory of processes in bytes, and their start. `away` gave no metrics.

    `retention_lag` is how long ago the oldest conversation past its retention was to be deleted, in seconds;
    None if no projector says.
    """

    used: int
    total: int
    open_streams: int
    retention_lag: float | None
    memory: dict[str, float]
    started: dict[str, datetime]
    away: list[str]


class Monitor:
    """Scrapes the targets as long as `run` runs."""

    def __init__(self, targets: Mapping[str, str]) -> None:
        self._targets = targets
        self._before: Scrape | None = None
        self._log = logs.get_logger("monitor")
        self.has_history = False
        self.points: deque[Point] = deque(maxlen=int(KEPT_SECONDS / EVERY_SECONDS))
        self.slots: WorkerSlots | None = None

    async def run(self) -> None:
        """Scrape every 15 seconds until cancelled."""
        while True:
            try:
                self._add(await scrape(await resolve_targets(self._targets)))
            except Exception:  # noqa: BLE001 - the outermost frame of a task
                self._log.exception("scrape_failed")
            await asyncio.sleep(EVERY_SECONDS)

    def add_history(self, points: Sequence[Point]) -> None:
        """Begin with the points of the hour before the start, the oldest first."""
        self.points.extend(points)
        self.has_history = True

    def _add(self, after: Scrape) -> None:
        self.slots = WorkerSlots(
            used=round(after.sum("runs_slots_used")),
            total=round(after.sum("runs_slots")),
            open_streams=round(after.sum("streams_open")),
            retention_lag=after.find("retention_lag_seconds"),
            memory=after.memory,
            started=after.started,
            away=sorted(after.away),
        )
        before, self._before = self._before, after
        if before is not None:
            self.points.append(build_point(before, after))

    def count_model_errors(self) -> list[tuple[str, int]]:
        """Sum `model_errors` of the last 15 minutes, the most frequent first."""
        since, total = time.monotonic() - RECENT_SECONDS, dict[str, float]()
        for each in self.points:
            if each.at >= since:
                for name, count in each.model_errors.items():
                    total[name] = total.get(name, 0.0) + count
        return sorted(((name, round(count)) for name, count in total.items()), key=lambda pair: -pair[1])


def build_point(before: Scrape, after: Scrape) -> Point:
    """Compute what happened between two scrapes. A restarted process counts from its start."""

    def count(name: str, **labels: str) -> float:
        return max(0.0, after.sum(name, **labels) - before.sum(name, **labels))

    def count_by(name: str, label: str, **labels: str) -> dict[str, float]:
        values = after.sum_by(name, label)
        counted = {value: count(name, **labels, **{label: value}) for value in values}
        return {value: count for value, count in counted.items() if count and value}

    errors = {
        f"{provider}: {kind}": count
        for provider in after.sum_by("model_calls_seconds_count", "provider")
        for kind, count in count_by("model_calls_seconds_count", "outcome", provider=provider).items()
        if kind != "ok"
    }
    used = {field: round(count("model_tokens_total", kind=kind)) for field, kind in TOKEN_KINDS.items()}
    return Point(
        at=after.at,
        seconds=max(after.at - before.at, 1e-3),
        ended={state: count("runs_ended_total", state=state) for state in ENDS},
        first_delta_p50=compute_quantile(0.5, before, after, "streams_first_delta_seconds"),
        first_delta_p99=compute_quantile(0.99, before, after, "streams_first_delta_seconds"),
        tokens=Usage(**used),
        model_errors=errors,
    )


async def resolve_targets(targets: Mapping[str, str]) -> dict[str, str]:
    """Resolve host names; a name with several addresses becomes several targets."""
    pairs = await asyncio.gather(*(_resolve_addresses(name, url) for name, url in targets.items()))
    return {name: url for each in pairs for name, url in each}


async def _resolve_addresses(name: str, url: str) -> Sequence[tuple[str, str]]:
    address = urlsplit(url)
    loop = asyncio.get_running_loop()
    found: list[str] = []
    with contextlib.suppress(OSError):
        infos = await loop.getaddrinfo(address.hostname, address.port, type=socket.SOCK_STREAM)
        found = sorted({str(info[4][0]) for info in infos})
    if len(found) < 2:
        return [(name, url)]
    hosts = [f"[{each}]" if ":" in each else each for each in found]
    return [
        (f"{name} {host}", urlunsplit(address._replace(netloc=f"{host}:{address.port}"))) for host in hosts
    ]
