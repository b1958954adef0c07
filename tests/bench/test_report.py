"""How the benchmark compares."""

from bench.measuring import Measured
from bench.report import CPU_CHATS, Machine, Report, Spread, ratio, tables


def _measured(subject: str, number: int, cpu: float) -> Measured:
    figures = {CPU_CHATS: cpu, "chats": 10.0, "chats / s": 5.0, "first p50 ms": 1.0, "first p99 ms": 2.0}
    used = {"server": cpu / 100, "client": 1.0, "upstream": 1.0}
    return Measured(
        scenario="8 at once", subject=subject, round=number, figures=figures, cpu=used, failures={}
    )


REPORT = Report(
    machine=Machine(cores=2, python="3.11", commit="abc", at="2026-11-22 12:00 UTC"),
    measured=[
        _measured(subject, number, cpu)
        for number, pair in enumerate(((2.0, 4.0), (6.0, 3.0), (8.0, 8.0)), start=1)
        for subject, cpu in zip(("service", "aiohttp"), pair, strict=True)
    ],
)


def test_a_ratio_is_taken_within_each_round() -> None:
    assert ratio(REPORT, "8 at once", CPU_CHATS, "service", "aiohttp") == Spread(
        median=1.0, low=0.5, high=2.0
    )
    assert ratio(REPORT, "8 at once", CPU_CHATS, "service", "sdk") is None


def test_the_client_and_the_provider_are_in_no_bill() -> None:
    (by_process,) = [table for table in tables(REPORT) if table.title.startswith("CPU ms")]
    assert by_process.columns == ("", "server")
    assert by_process.rows == [("8 at once", "6.00")]


def test_a_protocol_is_compared_with_form_1() -> None:
    pairs = (("form 1", 2.0), ("form 2", 1.0))
    measured = [_measured(subject, 1, cpu) for subject, cpu in pairs]
    (chats, *_) = tables(Report(machine=REPORT.machine, measured=measured))
    assert chats.columns[-2] == "it / form 1"
    assert [row[-2] for row in chats.rows] == ["", "0.5"]
