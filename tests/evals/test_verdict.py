"""The verdict on a suite: simulated suites of known effect, what is missing, and the reports."""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from agentchat.evals.case_results import CaseResult
from agentchat.evals.reports import render_junit, render_markdown
from agentchat.evals.statistics import Sample, compare_paired
from agentchat.evals.suite import SuiteSettings, parse_settings
from agentchat.evals.verdict import SuiteVerdict, decide_verdict
from tests.evals.made_cases import make_result

SETTINGS = SuiteSettings(agent="g", account="a")


def build_settings(text: str) -> SuiteSettings:
    return parse_settings(f"agent: g\naccount: a\n{text}".encode())


def build_suite(before: Sequence[float], after: Sequence[float], name: str = "Facts") -> list[CaseResult]:
    return [
        make_result(
            f"c{number:03}", {name: old}, {name: new}, slices={"language": "de" if number % 4 == 0 else "en"}
        )
        for number, (old, new) in enumerate(zip(before, after, strict=True))
    ]


def simulate(chance: random.Random, count: int, drop: float) -> list[CaseResult]:
    """Cases of which nine in ten pass before, and so much less after; a quarter is decided anew."""
    before = [float(chance.random() < 0.9) for _ in range(count)]
    redrawn = [float(chance.random() < 0.9 - 4 * drop) if chance.random() < 0.25 else each for each in before]
    return build_suite(before, redrawn)


@pytest.mark.parametrize(("drop", "at_least", "at_most"), [(0.0, 0, 3), (0.15, 27, 30)])
def test_a_drop_is_found_and_chance_is_not_mistaken_for_it(drop: float, at_least: int, at_most: int) -> None:
    chance = random.Random(147)
    found = Counter(decide_verdict(SETTINGS, simulate(chance, 200, drop)).exit_code for _ in range(30))
    assert at_least <= found[1] <= at_most, found


def test_the_interval_covers_the_true_difference() -> None:
    chance, covered = random.Random(147), 0
    for _ in range(200):
        pairs = [(chance.random(), chance.random() - 0.1) for _ in range(60)]
        found = compare_paired([old for old, _ in pairs], [new for _, new in pairs], 0.05)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= -0.1 <= found.high
    assert covered >= 184


def test_an_empty_sample_has_no_values() -> None:
    assert Sample.of([]) == Sample(count=0, mean=0.0, variance=0.0)
    assert Sample.of([0.5]).variance == 0.0


def test_a_slice_that_is_worse_is_not_hidden_by_the_mean() -> None:
    results = build_suite([1.0] * 400, [float(number % 4 != 0 or number > 200) for number in range(400)])
    found = decide_verdict(build_settings("thresholds: {Facts: {drop: 0.2}}"), results)
    states = {each.where: each.state for each in found.comparisons}
    assert states["language de"] == "worse"
    assert states["language en"] == "same"
    assert found.exit_code == 1
    assert found.reasons[0].startswith("Facts fell from 100.0% to 49.0% in language de (100 cases, 95 %")


def test_in_a_small_suite_each_drop_counts_that_is_not_tolerated() -> None:
    assert decide_verdict(SETTINGS, build_suite([1.0] * 10, [1.0] * 9 + [0.0])).exit_code == 1
    tolerant = build_settings("thresholds: {Facts: {drop: 0.1}}")
    assert decide_verdict(tolerant, build_suite([1.0] * 10, [1.0] * 9 + [0.0])).exit_code == 0


def test_a_mean_below_the_required_one_is_a_regression() -> None:
    demanding = build_settings("thresholds: {Facts: {at_least: 0.8}}")
    found = decide_verdict(demanding, build_suite([0.5] * 10, [0.6] * 10))
    assert (found.exit_code, found.reasons) == (1, ("Facts is 60.0%, below the required 80.0%",))


@pytest.mark.parametrize(
    ("results", "told"),
    [
        ([], "no case could be compared"),
        (
            [
                *build_suite([1.0] * 18, [1.0] * 18),
                *(make_result(f"x{n}", outcome="not_run", detail="no key") for n in "ab"),
            ],
            "2 of 20 cases were not run: no key",
        ),
        (
            [
                *build_suite([1.0] * 18, [1.0] * 18),
                *(make_result(f"x{n}", failures={"LLMJudge": "529"}) for n in "ab"),
            ],
            "LLMJudge could not judge 2 of 20 cases",
        ),
    ],
)
def test_too_many_unknown_results_give_no_verdict(results: list[CaseResult], told: str) -> None:
    found = decide_verdict(SETTINGS, results)
    assert (found.exit_code, found.reasons) == (2, (told,))


def test_erased_cases_are_not_missing() -> None:
    results = [
        *build_suite([1.0] * 5, [1.0] * 5),
        *(make_result(f"x{n}", outcome="erased") for n in range(5)),
    ]
    assert decide_verdict(SETTINGS, results).exit_code == 0


def test_a_baseline_takes_the_place_of_the_recorded_runs() -> None:
    now = build_suite([0.0] * 40, [0.5] * 40)
    found = decide_verdict(SETTINGS, now, baseline=build_suite([0.0] * 40, [1.0] * 40))
    assert (found.exit_code, found.against) == (1, "the baseline")
    assert decide_verdict(SETTINGS, now).exit_code == 0


def _build_regression() -> tuple[SuiteVerdict, list[CaseResult]]:
    foreign = "`x` | <b>&\x07 ``` end"
    results = [
        make_result(
            "worst",
            {"Facts": 1.0},
            {"Facts": 0.0},
            texts=(f"Sent {foreign}", "NO"),
            reasons={"Facts": foreign},
        ),
        *build_suite([1.0] * 3, [0.9] * 3),
        make_result("lost", outcome="not_run", detail=foreign),
        make_result("gone", outcome="erased"),
    ]
    return decide_verdict(SETTINGS, results), results


def test_markdown_has_the_worst_cases() -> None:
    written = render_markdown(*_build_regression(), "suite")
    assert written.startswith("## ❌ Regression: `suite`")
    assert "| `Facts` | `all cases` (4) | 100.0% | 67.5% | -32.5% | ❌ worse |" in written
    assert "<summary><code>worst: Facts</code></summary>" in written
    assert "\n+NO\n" in written
    assert "````diff" in written, "the fence is longer than any in the texts"


def test_junit_fails_what_is_worse() -> None:
    root = ElementTree.fromstring(render_junit(*_build_regression(), "suite"))
    (suite,) = root
    cases = [each for each in suite.iter("testcase") if each.get("classname") == "cases"]
    assert [each.get("name") for each in cases if each.find("skipped") is not None] == ["gone"]
    failed = {each.get("name") for each in suite.iter("testcase") if each.find("failure") is not None}
    assert {"Facts, all cases", "worst"} <= failed
    errors = {each.get("name") for each in suite.iter("testcase") if each.find("error") is not None}
    assert errors == {"lost"}


def test_a_long_report_fits_a_comment(tmp_path: Path) -> None:
    long = [
        make_result(f"c{n:03}", {"Facts": 1.0}, {"Facts": 0.0}, texts=("a. " * 40_000, "b. " * 40_000))
        for n in range(20)
    ]
    assert len(render_markdown(decide_verdict(SETTINGS, long), long, tmp_path.name)) < 65_536
