"""`agentchat top`: what all services measure now, added up; every two seconds."""

import asyncio
import contextlib
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import httpx
import msgspec
from prometheus_client.parser import text_string_to_metric_families
from rich.live import Live
from rich.table import Table

from ops import environment, printing, record

EVERY_SECONDS = 2.0
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
    `memory_bytes` and `loop_lag_seconds` (the mean).
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


def top(urls: Sequence[str], *, once: bool, as_json: bool) -> None:
    """Show it until Ctrl-C, or once. Raises NotRunningError."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_top(urls, once=once, as_json=as_json))


async def _top(urls: Sequence[str], *, once: bool, as_json: bool) -> None:
    before = await scrape(_targets(urls))
    if as_json or once:
        await asyncio.sleep(EVERY_SECONDS)
        found = between(before, await scrape(_targets(urls)))
        if as_json:
            printing.as_json(found)
        else:
            printing.console().print(shown(found))
        return
    with Live(
        shown(between(None, before)), console=printing.console(), screen=True, auto_refresh=False
    ) as live:
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            after = await scrape(_targets(urls))
            live.update(shown(between(before, after)), refresh=True)
            before = after


def _targets(urls: Sequence[str]) -> dict[str, str]:
    """Addresses of metrics by name: these, or those of the running stack. Raises NotRunningError."""
    if urls:
        return {url: url for url in urls}
    kept = record.running(environment.run_folder(), "; --url names the services of another system")
    return {each.name: each.metrics_url for each in kept.processes if each.metrics_url}


async def scrape(targets: Mapping[str, str]) -> Scrape:
    """All at once. One that does not answer is in `away`."""
    found = Scrape()
    async with httpx.AsyncClient(timeout=_SCRAPE_SECONDS, trust_env=False) as client:

        async def one(name: str, url: str) -> None:
            try:
                response = await client.get(url)
                response.raise_for_status()
                found.add(name, response.text)
            except (httpx.HTTPError, ValueError):
                found.away.append(name)

        await asyncio.gather(*(one(name, url) for name, url in targets.items()))
    return found


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
        lags={name: round(lag, 1) for name, lag in after.values("projector_lag_seconds", "follower").items()},
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


def shown(found: Top) -> Table:
    """For a terminal."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for name, text in _lines(found):
        grid.add_row(name, text)
    return grid


def _lines(found: Top) -> Iterator[tuple[str, str]]:
    yield "runs", f"{found.runs_per_second:,.1f}/s ended, {found.failed_per_second:,.1f}/s without a reply"
    first = f"first delta p50 {_seconds(found.first_delta_p50)}, p99 {_seconds(found.first_delta_p99)}"
    yield "streams", f"{found.open_streams:,} open, {found.deltas_per_second:,.0f} deltas/s; {first}"
    waiting = f"{found.requests_waiting:,} waiting, the oldest for {found.oldest_waiting_seconds:,.1f} s"
    yield "slots", f"{found.slots_used:,} of {found.slots:,} used; {waiting}"
    yield (
        "waiting",
        f"{found.runs_in_line:,} for a busy conversation, {found.approvals_waiting:,} for a person",
    )
    yield "takeovers", f"{found.takeovers:,}"
    model = f"{found.model_calls_per_second:,.1f}/s, p50 {_seconds(found.model_seconds_p50)}"
    yield "model", f"{model}, {found.model_errors:,} without a reply"
    tools = f"{found.tool_calls_per_second:,.1f}/s, p50 {_seconds(found.tool_seconds_p50)}"
    yield "tools", f"{tools}, {found.tool_errors:,} without a result"
    yield "tokens", f"{found.input_tokens_per_second:,.0f}/s in, {found.output_tokens_per_second:,.0f}/s out"
    yield "limits", f"{found.refused:,} refused, {found.decided_without_redis:,} decided without Redis"
    yield (
        "lags",
        ", ".join(f"{name} {lag:,.1f} s" for name, lag in found.lags.items()) or "no projector leads",
    )
    failing = f"{found.webhook_endpoints_failing:,} endpoints failing"
    yield "webhooks", f"{found.webhook_events_behind:,} events behind, {failing}"
    for name, own in found.processes.items():
        memory, lag = own["memory_bytes"] / 2**20, own["loop_lag_seconds"] * 1000
        yield name, f"{memory:,.0f} MiB, event loop {lag:,.1f} ms late"
    for name in found.away:
        yield name, "does not answer"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value * 1000:,.0f} ms" if value < 1 else f"{value:,.1f} s"
