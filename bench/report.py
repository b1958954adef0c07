"""What a run measured, and its tables: the same for the terminal, the JSON file and the documentation."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

import msgspec
import rich.table
from rich.console import Console

from bench.measuring import UPSTREAM, Measured
from bench.protocol_requests import FORM1
from bench.scenarios import AIOHTTP, ALL, SDK, SERVICE

CPU_CHATS, CPU_DELTAS = "CPU s / 1,000 chats", "CPU s / 1M deltas"
_NOT_MEASURED = ("client", UPSTREAM)


class Spread(msgspec.Struct, frozen=True):
    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Raises statistics.StatisticsError for none."""
    return Spread(median(values), min(values), max(values))


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    cores: int
    python: str
    commit: str
    at: str


class Table(msgspec.Struct, frozen=True):
    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


AddRow = Callable[..., None]
"""Takes the title of a table, its columns, and the cells of one more row."""


class Report(msgspec.Struct, kw_only=True):
    """Everything, as stored in JSON. `idle`: MiB by process and subject; `counts` by kind of chat.

    `more`: tables of which each row is one measurement, by title.
    """

    machine: Machine
    measured: list[Measured] = msgspec.field(default_factory=list)
    idle: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)
    counts: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    more: dict[str, Table] = msgspec.field(default_factory=dict)

    def add(self, title: str, columns: tuple[str, ...], row: tuple[str, ...]) -> None:
        self.more.setdefault(title, Table(title, columns, [])).rows.append(row)


def tables(report: Report) -> list[Table]:
    made = (
        _chats(report),
        _streams(report),
        _histories(report),
        *_processes(report),
        _idle(report),
        counts_table(report.counts),
        *report.more.values(),
    )
    return [table for table in made if table.rows]


def scenarios(report: Report, figure: str) -> list[str]:
    return list(dict.fromkeys(each.scenario for each in report.measured if figure in each.figures))


def rounds(report: Report, scenario: str, subject: str) -> list[Measured]:
    return [each for each in report.measured if (each.scenario, each.subject) == (scenario, subject)]


def subjects(report: Report) -> list[str]:
    return list(dict.fromkeys(each.subject for each in report.measured))


def ratio(report: Report, scenario: str, figure: str, subject: str, over: str) -> Spread | None:
    """A subject's figure in each round over that of another in the same round."""
    of, by = (rounds(report, scenario, each) for each in (subject, over))
    pairs = [(one.figures[figure], other.figures[figure]) for one, other in zip(of, by, strict=False)]
    values = [one / other for one, other in pairs if other]
    return spread(values) if values else None


def _chats(report: Report) -> Table:
    figures = (CPU_CHATS, "chats / s", "first p50 ms", "first p99 ms")
    names = [name for name in scenarios(report, CPU_CHATS) if not name.startswith("history")]
    return _by_subject(report, "Short chats: 20 deltas that arrive at once", names, figures, CPU_CHATS)


def _streams(report: Report) -> Table:
    figures = (
        *(CPU_DELTAS, "stretch p50", "stretch p99", "first p50 ms", "first p99 ms", "delay p99 ms"),
        "KiB / open stream",
    )
    return _by_subject(report, "Paced streams", scenarios(report, CPU_DELTAS), figures, CPU_DELTAS)


def _by_subject(
    report: Report, title: str, names: Iterable[str], figures: tuple[str, ...], compared: str
) -> Table:
    """A row for each scenario and subject; the ratio is service to baseline, or protocol to form 1."""
    by_protocol = FORM1 in subjects(report)
    rows: list[tuple[str, ...]] = []
    for name in names:
        for subject in subjects(report):
            if found := rounds(report, name, subject):
                values = [_of(found, figure, with_range=figure == compared) for figure in figures]
                pair = (subject, FORM1) if by_protocol else (SERVICE, subject)
                against = ratio(report, name, compared, *pair) if subject not in (SERVICE, FORM1) else None
                failed = sum(sum(each.failures.values()) for each in found)
                rows.append((name, subject, *values, _range(against) if against else "", str(failed or "")))
    against_column = "it / form 1" if by_protocol else "service / it"
    return Table(title, ("", "", *figures, against_column, "failed"), rows)


def _of(found: Sequence[Measured], figure: str, *, with_range: bool) -> str:
    values = [each.figures[figure] for each in found if figure in each.figures]
    if not values:
        return ""
    return _range(spread(values)) if with_range else _number(spread(values).median)


def _histories(report: Report) -> Table:
    """First delta, and how it stands to that of the shortest history."""
    names = [name for name in scenarios(report, CPU_CHATS) if name.startswith("history")]
    rows: list[tuple[str, ...]] = []
    for name in names:
        row = [name.removeprefix("history ")]
        for subject in ALL:
            first, this = _median_of(report, names[0], subject), _median_of(report, name, subject)
            row += [f"{this:.1f}", f"{this / first:.2f}"] if first else ["", ""]
        rows.append(tuple(row))
    columns = [column for subject in ALL for column in (f"{subject} p50 ms", "x shortest")]
    return Table("First delta by messages that the conversation has", ("messages", *columns), rows)


def _median_of(report: Report, name: str, subject: str) -> float:
    found = [each.figures["first p50 ms"] for each in rounds(report, name, subject)]
    return spread(found).median if found else 0.0


def _processes(report: Report) -> list[Table]:
    return [
        _by_process(report, "CPU ms of a chat, by process", CPU_CHATS, "chats"),
        _by_process(report, "CPU µs of a delta, by process", CPU_DELTAS, "deltas"),
    ]


def by_process(report: Report, name: str, subject: str, units: str) -> dict[str, float]:
    """CPU seconds of one chat or delta by process, without client and provider; the rounds' median."""
    found = rounds(report, name, subject)
    processes = [process for process in found[0].cpu if process not in _NOT_MEASURED] if found else []
    return {
        process: spread([each.cpu[process] / max(1.0, each.figures[units]) for each in found]).median
        for process in processes
    }


def _by_process(report: Report, title: str, figure: str, units: str) -> Table:
    scale = 1e3 if units == "chats" else 1e6
    rows: list[tuple[str, ...]] = []
    columns: tuple[str, ...] = ()
    for name in scenarios(report, figure):
        for subject in subjects(report):
            used = by_process(report, name, subject, units) if subject not in (SDK, AIOHTTP) else {}
            if used:
                columns = tuple(used)
                label = name if subject == SERVICE else f"{name}, {subject}"
                rows.append((label, *(f"{seconds * scale:.2f}" for seconds in used.values())))
    return Table(title, ("", *columns), rows)


def _idle(report: Report) -> Table:
    rows: list[tuple[str, ...]] = []
    for subject, sizes in report.idle.items():
        each = ", ".join(
            f"{name} {size:.0f}" for name, size in sorted(sizes.items(), key=lambda pair: -pair[1])
        )
        rows.append((subject, f"{sum(sizes.values()):.0f}", each))
    return Table("Memory before the first chat, MiB (PSS)", ("", "all", "of which"), rows)


def counts_table(counts: Mapping[str, Mapping[str, int]]) -> Table:
    """A row a count, a column a kind of chat."""
    names = sorted({name for each in counts.values() for name in each})
    rows = [(name, *(str(each.get(name, "")) for each in counts.values())) for name in names]
    return Table("What one chat costs, counted", ("", *counts), rows)


def _range(found: Spread) -> str:
    """The median, and the lowest and highest where they are another."""
    low, median, high = map(_number, (found.low, found.median, found.high))
    return median if low == high else f"{median} ({low} to {high})"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def markdown(made: Sequence[Table]) -> str:
    """For docs/change/performance.md."""
    line: Callable[[Iterable[str]], str] = lambda cells: f"| {' | '.join(cells)} |"  # noqa: E731
    return "\n\n".join(
        "\n".join(
            (
                f"**{each.title}**",
                "",
                line(each.columns),
                "|---" * len(each.columns) + "|",
                *map(line, each.rows),
            )
        )
        for each in made
    )


_PAPER = 140


def show(console: Console, tables: Iterable[Table]) -> None:
    """Print them; into a file at a width of its own."""
    if not console.is_terminal:
        console.width = _PAPER
    for table in tables:
        console.print(_shown(table))


def _shown(table: Table) -> rich.table.Table:
    shown = rich.table.Table(title=table.title, title_justify="left")
    for place, column in enumerate(table.columns):
        shown.add_column(column, justify="right" if place else "left")
    for row in table.rows:
        shown.add_row(*row)
    return shown
