"""The tables of the benchmarks."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import msgspec
import rich.table
from rich.console import Console

from bench.systems import SERVICE

CPU_CHATS, CPU_DELTAS = "CPU s / 1,000 chats", "CPU s / 1M deltas"
TOOL_CALL, EARLIER = "tool call", "1,000 earlier messages"
_CHATS = (CPU_CHATS, "chats / s", "first p50 ms", "first p99 ms")
_STREAMS = (CPU_DELTAS, "stretch p99", "first p50 ms", "first p99 ms", "KiB / open stream")
_IDLE = ("MiB", "% of a core")
_RATIOS = (
    ("1 at once", CPU_CHATS),
    ("1 at once", "first p50 ms"),
    ("32 at once", CPU_CHATS),
    ("32 at once", "chats / s"),
    ("200 streams", CPU_DELTAS),
)
"""The service's figures to compare with the baselines' in the table of ratios."""
_PAPER_WIDTH = 120


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario with one system, once. `figures` by name; `cpu` in seconds by process."""

    scenario: str
    system: str
    round: int
    figures: dict[str, float]
    cpu: dict[str, float]
    failures: dict[str, int]


class Spread(msgspec.Struct, frozen=True):
    """The median and the extremes of some values."""

    median: float
    low: float
    high: float

    @classmethod
    def from_values(cls, values: Sequence[float]) -> "Spread":
        """Compute the spread of values."""
        return cls(median(values), min(values), max(values))

    def __str__(self) -> str:
        low, middle, high = map(_number, (self.low, self.median, self.high))
        return middle if low == high else f"{middle} ({low} to {high})"


class Table(msgspec.Struct, frozen=True):
    """A table of a report."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


def build_tables(measured: Sequence[Measured]) -> list[Table]:
    """Compare the systems by scenario, and show where the service spends its CPU time."""
    made = (
        compare_systems(measured, "Short chats: 20 deltas that arrive at once", _CHATS),
        compare_systems(measured, "Paced streams", _STREAMS),
        compare_systems(measured, "Idle", _IDLE),
        build_ratios_table(measured),
        build_process_table(measured, "CPU ms of a chat, by process", CPU_CHATS, "chats", 1e3),
        build_process_table(measured, "CPU µs of a delta, by process", CPU_DELTAS, "deltas", 1e6),
    )
    return [table for table in made if table.rows]


def build_counts_table(counts: Mapping[str, Mapping[str, int]]) -> Table:
    """Show a row for each count and a column for each kind of chat."""
    names = sorted({name for each in counts.values() for name in each})
    rows = [(name, *(str(each.get(name, "")) for each in counts.values())) for name in names]
    return Table("What one chat costs, counted", ("", *counts), rows)


def compute_ratio(measured: Sequence[Measured], scenario: str, figure: str, other: str) -> Spread | None:
    """Divide the service's figure by another system's within each round, so that other load is in both."""
    ours, theirs = (list_rounds(measured, scenario, each) for each in (SERVICE, other))
    pairs = [(one.figures[figure], two.figures[figure]) for one, two in zip(ours, theirs, strict=False)]
    values = [one / two for one, two in pairs if two]
    return Spread.from_values(values) if values else None


def build_ratios_table(measured: Sequence[Measured]) -> Table:
    """Divide the service's figures by the baselines', and its own of special chats by those of plain ones."""
    rows: list[tuple[str, ...]] = []
    for scenario, figure in _RATIOS:
        ratios = [compute_ratio(measured, scenario, figure, other) for other in ("sdk", "aiohttp")]
        if any(ratios):
            rows.append((f"{scenario}: {figure}", *(str(each or "") for each in ratios), ""))
    for scenario, figure in ((TOOL_CALL, CPU_CHATS), (EARLIER, "first p50 ms")):
        special, plain = (
            _spread(list_rounds(measured, each, SERVICE), figure) for each in (scenario, "1 at once")
        )
        if special and plain:
            rows.append((f"{scenario}: {figure}", "", "", _number(special.median / plain.median)))
    return Table("Ratios of the service", ("", "to sdk", "to aiohttp", "to a plain chat at 1 at once"), rows)


def compare_systems(measured: Sequence[Measured], title: str, figures: tuple[str, ...]) -> Table:
    rows: list[tuple[str, ...]] = []
    for scenario in list_scenarios(measured, figures[0]):
        for system in dict.fromkeys(each.system for each in measured):
            found = list_rounds(measured, scenario, system)
            if not found:
                continue
            first, *others = (_spread(found, figure) for figure in figures)
            values = [str(first), *("" if each is None else _number(each.median) for each in others)]
            against = "" if system == SERVICE else compute_ratio(measured, scenario, figures[0], system)
            failed = sum(sum(each.failures.values()) for each in found)
            rows.append((scenario, system, *values, str(against or ""), str(failed or "")))
    return Table(title, ("", "", *figures, "service / it", "failed"), rows)


def build_process_table(
    measured: Sequence[Measured], title: str, figure: str, unit: str, scale: float
) -> Table:
    used: dict[str, list[str]] = {}
    scenarios = [name for name in list_scenarios(measured, figure) if list_rounds(measured, name, SERVICE)]
    for scenario in scenarios:
        found = list_rounds(measured, scenario, SERVICE)
        for process in found[0].cpu:
            seconds = median(each.cpu[process] / each.figures[unit] for each in found)
            used.setdefault(process, []).append(f"{seconds * scale:.2f}")
    return Table(title, ("", *scenarios), [(process, *row) for process, row in used.items()])


def list_scenarios(measured: Sequence[Measured], figure: str) -> list[str]:
    return list(dict.fromkeys(each.scenario for each in measured if figure in each.figures))


def list_rounds(measured: Sequence[Measured], scenario: str, system: str) -> list[Measured]:
    return [each for each in measured if (each.scenario, each.system) == (scenario, system)]


def _spread(found: Sequence[Measured], figure: str) -> Spread | None:
    values = [each.figures[figure] for each in found if figure in each.figures]
    return Spread.from_values(values) if values else None


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def show(console: Console, found: Iterable[Table]) -> None:
    """Print tables, into a file at a width of its own. Labels are never cut; headings may take two lines."""
    if not console.is_terminal:
        console.width = _PAPER_WIDTH
    for table in found:
        shown = rich.table.Table(title=table.title, title_justify="left")
        for place, column in enumerate(table.columns):
            shown.add_column(column, justify="right" if place else "left", no_wrap=not place)
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)
