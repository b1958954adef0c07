"""`agentchat eval report` and `baseline`, on results of a run."""

import json
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from evals.judging.asked_judge import judge_of
from evals.judging.suite_judging import judge_results
from evals.results import CaseResult
from evals.suite import JudgeModel, Suite
from ops.errors import SetupError
from ops.main import app
from tests.evals.done_again import case, result
from tests.evals.made_cases import made_suite

_NAMES = [f"c{number:02}" for number in range(40)]


async def _judged(folder: Path, results: Iterable[CaseResult], settings: str = "") -> Suite:
    """A suite whose last run had these results."""
    settings = settings or "evaluators: [{name: equal}]\n"
    suite = made_suite(folder, [case(name) for name in _NAMES], settings)
    path = folder / "results.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in results))
    await judge_results(suite, path)
    return suite


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["eval", *map(str, arguments)])


async def test_the_last_run_is_reported_in_every_form_and_its_exit_code_is_the_verdict(
    tmp_path: Path,
) -> None:
    lost = [result(name, "Gone.") for name in _NAMES[:20]]
    await _judged(tmp_path, [*lost, *(result(name) for name in _NAMES[20:])])
    files = {each: tmp_path / f"out.{each}" for each in ("junit", "markdown", "html")}
    shown = _run("report", tmp_path, *(part for name, path in files.items() for part in (f"--{name}", path)))
    assert shown.exit_code == 1
    assert "equal" in shown.stdout
    assert "-50.0%" in shown.stdout
    assert "equal fell from 100.0% to 50.0% in all cases (40)" in shown.stderr
    assert "regression; 20 cases got worse, such as c00" in shown.stderr
    assert ET.fromstring(files["junit"].read_bytes())[0].attrib["failures"] == "21"
    assert "❌ Regression" in files["markdown"].read_text()
    assert "<ins>Gone.</ins>" in files["html"].read_text()
    assert json.loads(_run("report", tmp_path, "--json").stdout)["exit_code"] == 1


async def test_a_stored_baseline_is_what_later_runs_are_compared_with(tmp_path: Path) -> None:
    await _judged(tmp_path, [result(name, "Other.") for name in _NAMES])
    assert _run("report", tmp_path).exit_code == 1
    stored = _run("baseline", tmp_path)
    assert stored.exit_code == 0
    assert "add `baseline: baseline.jsonl` to suite.yaml" in stored.stderr
    settings = "evaluators: [{name: equal}]\nbaseline: baseline.jsonl\n"
    await _judged(tmp_path, [result(name, "Other.") for name in _NAMES], settings)
    shown = _run("report", tmp_path)
    assert shown.exit_code == 0
    assert "40 cases against the baseline: 40 completed." in shown.stderr


async def test_what_was_not_run_and_what_is_damaged_is_no_verdict(tmp_path: Path) -> None:
    suite = await _judged(tmp_path, [result(name) for name in _NAMES[:30]])
    shown = _run("report", tmp_path)
    assert shown.exit_code == 2
    assert "nothing is known of 10 of 40 cases (10 not run, 0 damaged), and 5% is allowed" in shown.stderr
    suite.cases.write_bytes(suite.cases.read_bytes().replace(b"Where is", b"Who is"))
    await judge_results(suite, tmp_path / "results.jsonl")
    assert "(0 not run, 40 damaged)" in _run("report", tmp_path).stderr


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "results.jsonl does not exist: `agentchat eval run` writes it"),
        (b"", "results.judged.jsonl: cannot be read: No such file or directory"),
        (b"{}\n", "results.judged.jsonl: holds something else than judgements"),
    ],
)
def test_results_that_were_not_judged_are_a_wrong_command(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    made_suite(tmp_path)
    if content is not None:
        (tmp_path / "results.jsonl").touch()
    if content:
        (tmp_path / "results.judged.jsonl").write_bytes(content)
    for command in ("report",) if content else ("report", "baseline"):
        shown = _run(command, tmp_path)
        assert isinstance(shown.exception, SetupError)
        assert reason in str(shown.exception)


def test_a_baseline_that_is_missing_is_known_before_anything_is_run(tmp_path: Path) -> None:
    made_suite(tmp_path, settings="baseline: main.jsonl\n")
    shown = _run("run", tmp_path)
    assert isinstance(shown.exception, SetupError)
    assert "has no main.jsonl; run the suite without the line" in str(shown.exception)


def test_cases_go_to_no_other_provider_than_the_agents_unless_the_suite_names_it(tmp_path: Path) -> None:
    suite = made_suite(tmp_path)
    agent = replace(
        suite.agent.settings, provider="anthropic", base_url="https://a.example", parameters={"a": 1}
    )
    suite = replace(suite, agent=replace(suite.agent, settings=agent))

    answering = suite.agent

    def settings(judge: JudgeModel | None) -> tuple[str, str | None, str, bool]:
        found = judge_of(replace(suite, settings=replace(suite.settings, judge=judge)), answering).settings
        return found.provider, found.base_url, found.model, bool(found.parameters)

    assert settings(None) == ("anthropic", "https://a.example", "demo-shop-1", True)
    assert settings(JudgeModel(model="other")) == ("anthropic", "https://a.example", "other", True)
    assert settings(JudgeModel(provider="openai", model="m")) == ("openai", None, "m", False)
    elsewhere = replace(agent, provider="openai", base_url="https://b.example")
    answering = replace(suite.agent, settings=elsewhere)
    assert settings(None) == ("anthropic", "https://a.example", "demo-shop-1", True)
