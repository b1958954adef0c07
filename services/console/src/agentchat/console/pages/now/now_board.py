"""Build the board of the page Now: figures, failures and charts."""

import asyncio
import time

import msgspec

from agentchat.bus.bus import Bus
from agentchat.console.live.metrics_history import Monitor, Point, WorkerSlots
from agentchat.console.shared.periods import compute_bounds
from agentchat.console.shared.template_filters import format_tokens
from agentchat.conversations.postgres_sessions import read_server_time
from agentchat.conversations.queries.find_runs import RunFilter, find_runs
from agentchat.conversations.queries.sorted_list import RowCount
from agentchat.ops.status.system_figures import SystemFigures, gather_from
from agentchat.runtime.postgres import DatabaseUnavailable, Pool

FIGURES_SECONDS = 5.0


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """A chart: `x` are seconds before now, `lines` are names with values."""

    id: str
    title: str
    unit: str
    latest: str
    x: list[int]
    lines: list[tuple[str, list[float | None]]]

    def encode(self) -> str:
        """Encode the data for `charts.js`."""
        return msgspec.json.encode({"unit": self.unit, "x": self.x, "lines": self.lines}).decode()


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """The figures, failures and charts.

    `failed_last_hour` is None if Postgres does not answer. `model_errors` are counts of failed provider
    calls. The charts go `since` seconds back: an hour, or to the console's start unless it `has_history`.
    """

    figures: SystemFigures
    slots: WorkerSlots | None
    failed_last_hour: RowCount | None
    model_errors: list[tuple[str, int]]
    charts: list[Chart]
    since: float
    has_history: bool


class Boards:
    """Builds the board, at most once in five seconds for all browsers."""

    def __init__(self, pool: Pool, bus: Bus, monitor: Monitor) -> None:
        self._pool, self._bus, self._monitor = pool, bus, monitor
        self._look = asyncio.Lock()
        self._made: tuple[float, Board] | None = None

    async def load(self) -> Board:
        """Return the board, at most five seconds old."""
        async with self._look:
            if self._made is None or time.monotonic() - self._made[0] >= FIGURES_SECONDS:
                figures = await gather_from(self._pool, self._bus)
                failed = await self._count_failed_last_hour()
                self._made = time.monotonic(), self._build_board(figures, failed)
            return self._made[1]

    async def _count_failed_last_hour(self) -> RowCount | None:
        """Count what /runs?state=failed&when=hour lists."""
        try:
            since, _ = compute_bounds("hour", await read_server_time(self._pool))
            wanted = RunFilter(state="failed", since=since)
            return (await find_runs(self._pool, wanted, limit=1, counts=True)).total
        except DatabaseUnavailable:
            return None

    def _build_board(self, figures: SystemFigures, failed_last_hour: RowCount | None) -> Board:
        points, now = list(self._monitor.points), time.monotonic()
        return Board(
            figures=figures,
            slots=self._monitor.slots,
            failed_last_hour=failed_last_hour,
            model_errors=self._monitor.count_model_errors(),
            charts=build_charts(points, now),
            has_history=self._monitor.has_history,
            since=now - (points[0].at - points[0].seconds) if points else 0.0,
        )


def build_charts(points: list[Point], now: float) -> list[Chart]:
    """Build four charts over one time axis."""
    x = [round(each.at - now) for each in points]
    minutes = [each.seconds / 60 for each in points]

    def compute_rates(values: list[float]) -> list[float | None]:
        return [round(value / part, 1) for value, part in zip(values, minutes, strict=True)]

    ended = {
        state: compute_rates([each.ended[state] for each in points]) for state in ("completed", "cancelled")
    }
    failed = compute_rates([each.ended["failed"] for each in points])
    p50, p99 = [each.first_delta_p50 for each in points], [each.first_delta_p99 for each in points]
    used = [each.tokens for each in points]
    model_errors = compute_rates([sum(each.model_errors.values()) for each in points])
    last_p50 = next((value for value in reversed(p50) if value is not None), None)
    return [
        Chart(
            id="runs",
            title="Runs ended",
            unit="/min",
            latest=_format_latest(compute_rates([sum(each.ended.values()) for each in points])),
            x=x,
            lines=[("completed", ended["completed"]), ("cancelled", ended["cancelled"]), ("failed", failed)],
        ),
        Chart(
            id="first",
            title="Time to first words",
            unit="s",
            latest="-" if last_p50 is None else f"{last_p50:.2f}",
            x=x,
            lines=[("p50", p50), ("p99", p99)],
        ),
        Chart(
            id="tokens",
            title="Tokens",
            unit="/min",
            latest=_format_latest(compute_rates([each.total for each in used])),
            x=x,
            lines=[
                ("input", compute_rates([each.input_tokens for each in used])),
                ("cache reads", compute_rates([each.cache_read_tokens for each in used])),
                ("cache writes", compute_rates([each.cache_creation_tokens for each in used])),
                ("output", compute_rates([each.output_tokens for each in used])),
            ],
        ),
        Chart(
            id="errors",
            title="Failed runs",
            unit="/min",
            latest=_format_latest(failed),
            x=x,
            lines=[("failed runs", failed), ("failed provider calls", model_errors)],
        ),
    ]


def _format_latest(values: list[float | None]) -> str:
    return format_tokens(round(values[-1] or 0)) if values else "-"
