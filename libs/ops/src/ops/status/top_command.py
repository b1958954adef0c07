"""`agentchat top`: what all services measure now, added up; every two seconds."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence

from rich.live import Live
from rich.table import Table

from ops import environment, printing, record
from ops.status.scraping import Top, between, scrape

EVERY_SECONDS = 2.0


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
        shards = f", {own['shards']:.0f} shards of accounts" if "shards" in own else ""
        yield name, f"{memory:,.0f} MiB, event loop {lag:,.1f} ms late{shards}"
    for name in found.away:
        yield name, "does not answer"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value * 1000:,.0f} ms" if value < 1 else f"{value:,.1f} s"
