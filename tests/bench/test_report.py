"""How the benchmark compares, and what its tables look like."""

import io

from rich.console import Console

from bench.report import CPU_CHATS, Measured, Spread, build_counts_table, build_tables, compute_ratio, show

KINDS = (
    *("first message", "next message", "tool call", "form 2", "AI SDK", "AG-UI"),
    *("OpenAI chat", "OpenAI responses"),
)


def _build_measured(system: str, number: int, cpu: float) -> Measured:
    figures = {CPU_CHATS: cpu, "chats": 10.0, "chats / s": 5.0, "first p50 ms": 1.0, "first p99 ms": 2.0}
    used = {"server": cpu / 100}
    return Measured(scenario="8 at once", system=system, round=number, figures=figures, cpu=used, failures={})


MEASURED = [
    _build_measured(system, number, cpu)
    for number, pair in enumerate(((2.0, 4.0), (6.0, 3.0), (8.0, 8.0)), start=1)
    for system, cpu in zip(("service", "aiohttp"), pair, strict=True)
]


def test_a_ratio_is_taken_within_each_round() -> None:
    assert compute_ratio(MEASURED, "8 at once", CPU_CHATS, "aiohttp") == Spread(median=1.0, low=0.5, high=2.0)
    assert compute_ratio(MEASURED, "8 at once", CPU_CHATS, "sdk") is None


def test_service_is_shown_by_process() -> None:
    compared, by_process = build_tables(MEASURED)
    assert [row[-2] for row in compared.rows] == ["", "1 (0.5 to 2)"]
    assert by_process.rows == [("server", "6.00")]


def test_counts_can_be_read_at_120_columns() -> None:
    counts = {"postgres.writing_transactions": 5, "postgres.wal_bytes": 12_000, "callbacks.orchestrator": 123}
    shown = io.StringIO()
    show(Console(file=shown), [build_counts_table(dict.fromkeys(KINDS, counts))])
    assert all(f" {name} " in shown.getvalue() for name in counts)
    assert "…" not in shown.getvalue()
    assert max(map(len, shown.getvalue().splitlines())) <= 120
