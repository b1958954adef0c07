"""What services measure, scraped from their `/metrics` and added up: for `agentchat top` and the console."""

import asyncio
import contextlib
import math
import time
from collections import defaultdict
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

import msgspec
from prometheus_client.parser import text_string_to_metric_families

_SCRAPE_SECONDS = 2.0
_PREFIX = "agentchat_"
Labels = frozenset[tuple[str, str]]


class Scrape:
    """The samples of all processes at one time: each name and its labels, added up over the processes."""

    def __init__(self) -> None:
        self.at = time.monotonic()
        self.away: list[str] = []
        self.processes: dict[str, dict[str, float]] = {}
        self._samples: dict[str, dict[Labels, float]] = defaultdict(lambda: defaultdict(float))

    def add(self, process: str, text: str) -> None:
        """What `/metrics` of a process has."""
        own = self.processes[process] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                name = sample.name.removeprefix(_PREFIX)
                own[name] = own.get(name, 0.0) + sample.value
                self._samples[name][frozenset(sample.labels.items())] += sample.value

    def sum(self, name: str, **labels: str) -> float:
        """Of all samples of this name that have these labels."""
        wanted = labels.items()
        return math.fsum(value for has, value in self._samples.get(name, {}).items() if wanted <= set(has))

    def most(self, name: str) -> float | None:
        """The largest of any labels, for what several processes measure of the same thing."""
        return max(self._samples.get(name, {}).values(), default=None)

    def most_by(self, name: str, label: str) -> dict[str, float]:
        """The largest by the values of a label."""
        found: dict[str, float] = {}
        for has, value in self._samples.get(name, {}).items():
            key = dict(has).get(label, "")
            found[key] = max(value, found.get(key, value))
        return found

    def values(self, name: str, label: str) -> dict[str, float]:
        """By the values of a label."""
        found: dict[str, float] = defaultdict(float)
        for has, value in self._samples.get(name, {}).items():
            found[dict(has).get(label, "")] += value
        return dict(found)


class Top(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints. Rates and quantiles are of the time since the scrape before, or the start.

    `first_delta_p50` and the like are seconds, None where nothing was measured; `model_errors` and
    `tool_errors` are calls without the outcome `ok`; `lags` are seconds by follower; `processes` have
    `memory_bytes` and `loop_lag_seconds` (the mean), those of projectors `shards` too.
    """

    runs_per_second: float
    failed_per_second: float
    deltas_per_second: float
    first_delta_p50: float | None
    first_delta_p99: float | None
    open_streams: int
    slots: int
    slots_used: int
    requests_waiting: int
    oldest_waiting_seconds: float
    runs_in_line: int
    approvals_waiting: int
    takeovers: int
    model_calls_per_second: float
    model_seconds_p50: float | None
    model_errors: int
    tool_calls_per_second: float
    tool_seconds_p50: float | None
    tool_errors: int
    input_tokens_per_second: float
    output_tokens_per_second: float
    refused: int
    decided_without_redis: int
    lags: dict[str, float]
    webhook_events_behind: int
    webhook_endpoints_failing: int
    processes: dict[str, dict[str, float]]
    away: list[str]


async def scrape(targets: Mapping[str, str]) -> Scrape:
    """All at once. One that does not answer is in `away`."""
    found = Scrape()

    async def one(name: str, url: str) -> None:
        try:
            found.add(name, await asyncio.to_thread(_fetched, url))
        except (OSError, HTTPException, ValueError):
            found.away.append(name)

    await asyncio.gather(*(one(name, url) for name, url in targets.items()))
    return found


def _fetched(url: str) -> str:
    """The text of a page. By the standard library: the console has no HTTP client in memory for this."""
    address = urlsplit(url)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=_SCRAPE_SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", address.path)
        response = connection.getresponse()
        if response.status != 200:
            raise ValueError(f"{url} answers {response.status}")
        return response.read().decode()


def between(before: Scrape | None, after: Scrape) -> Top:
    """The figures of `after`, and the rates since `before`; without it, of all time."""
    before, seconds = before or Scrape(), math.inf if before is None else max(after.at - before.at, 1e-3)

    def more(name: str, **labels: str) -> float:
        return max(0.0, after.sum(name, **labels) - before.sum(name, **labels))

    def rate(name: str, **labels: str) -> float:
        return round(more(name, **labels) / seconds, 1)

    def errors(name: str) -> int:
        return round(more(f"{name}_count") - more(f"{name}_count", outcome="ok"))

    ended = rate("runs_ended_total")
    return Top(
        runs_per_second=ended,
        failed_per_second=round(ended - rate("runs_ended_total", state="completed"), 1),
        deltas_per_second=rate("runs_deltas_total"),
        first_delta_p50=quantile(0.5, before, after, "streams_first_delta_seconds"),
        first_delta_p99=quantile(0.99, before, after, "streams_first_delta_seconds"),
        open_streams=round(after.sum("streams_open")),
        slots=round(after.sum("runs_slots")),
        slots_used=round(after.sum("runs_slots_used")),
        requests_waiting=round(after.most("requests_waiting") or 0),
        oldest_waiting_seconds=round(after.most("requests_oldest_seconds") or 0, 1),
        runs_in_line=round(after.sum("runs_in_line")),
        approvals_waiting=round(after.sum("approvals_waiting")),
        takeovers=round(more("runs_taken_over_total")),
        model_calls_per_second=rate("model_calls_seconds_count"),
        model_seconds_p50=quantile(0.5, before, after, "model_calls_seconds"),
        model_errors=errors("model_calls_seconds"),
        tool_calls_per_second=rate("tools_calls_seconds_count"),
        tool_seconds_p50=quantile(0.5, before, after, "tools_calls_seconds"),
        tool_errors=errors("tools_calls_seconds"),
        input_tokens_per_second=rate("model_tokens_total") - rate("model_tokens_total", kind="output"),
        output_tokens_per_second=rate("model_tokens_total", kind="output"),
        refused=round(more("limits_refused_total")),
        decided_without_redis=round(more("limits_decided_locally_total")),
        lags={
            name: round(lag, 1) for name, lag in after.most_by("projector_lag_seconds", "follower").items()
        },
        webhook_events_behind=round(after.most("webhooks_events_behind") or 0),
        webhook_endpoints_failing=round(after.most("webhooks_endpoints_failing") or 0),
        processes={
            name: _process(before.processes.get(name, {}), own)
            for name, own in sorted(after.processes.items())
        },
        away=sorted(after.away),
    )


def _process(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    lag, count = (
        after.get(name, 0.0) - before.get(name, 0.0)
        for name in ("process_loop_lag_seconds_sum", "process_loop_lag_seconds_count")
    )
    return {
        "memory_bytes": after.get("process_memory_bytes", 0.0),
        "loop_lag_seconds": round(max(0.0, lag) / count, 4) if count > 0 else 0.0,
        **({"shards": after["projector_shards"]} if "projector_shards" in after else {}),
    }


def quantile(part: float, before: Scrape, after: Scrape, name: str) -> float | None:
    """Of a histogram, in seconds, by linear interpolation in its bucket, as Prometheus does it."""
    old = before.values(f"{name}_bucket", "le")
    counts = {
        float(le): value - old.get(le, 0.0) for le, value in after.values(f"{name}_bucket", "le").items()
    }
    total = counts.get(math.inf, 0.0)
    if total <= 0:
        return None
    lower = lower_count = 0.0
    for bound in sorted(counts):
        if counts[bound] >= part * total:
            if math.isinf(bound):
                return lower
            share = (part * total - lower_count) / (counts[bound] - lower_count)
            return round(lower + (bound - lower) * share, 4)
        lower, lower_count = bound, counts[bound]
    return lower
