"""`agentchat eval show`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from evals.case_file import read_cases
from evals.cases import Case
from ops.errors import RefusedError, SetupError
from ops.main import app
from tests.evals.made_cases import history_case, made_suite


def test_a_suite_is_shown_by_the_kinds_of_its_cases(tmp_path: Path) -> None:
    made_suite(tmp_path, [history_case(name) for name in ("shop", "sources", "failed")])

    shown = CliRunner().invoke(app, ["eval", "show", str(tmp_path), "--json"])

    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout) == {
        "cases": 3,
        "damaged": [],
        "slices": [{"slice": "end", "value": "completed", "cases": 3}],
    }


def test_a_damaged_case_is_reported_and_no_success(tmp_path: Path) -> None:
    suite = made_suite(tmp_path, [history_case(name) for name in ("shop", "sources")])
    suite.cases.write_bytes(suite.cases.read_bytes().replace(b"completed", b"cancelled", 1))

    shown = CliRunner().invoke(app, ["eval", "show", str(tmp_path)])

    assert isinstance(shown.exception, RefusedError)
    assert shown.exception.exit_code == 1
    assert "cases.jsonl line 1: case " in shown.stderr


def test_a_folder_without_a_suite_is_a_wrong_command(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["eval", "show", str(tmp_path)])

    assert isinstance(shown.exception, SetupError)
    assert "is no suite: it has no suite.yaml" in str(shown.exception)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (["contains", "ORD-1001"], {"contains": {"text": "ORD-1001"}}),
        (["contains", "texts: [ORD-1001, Munich]"], {"contains": {"texts": ["ORD-1001", "Munich"]}}),
        (["language"], {"language": {}, "contains": {"text": "x"}}),
        (["contains", "--remove"], {}),
    ],
)
def test_a_case_gets_a_check_of_its_own(given: list[str], stored: dict[str, object], tmp_path: Path) -> None:
    case, other = (history_case(name) for name in ("shop", "sources"))
    suite = made_suite(tmp_path, [replace(case, checks={"contains": {"text": "x"}}), other])

    done = CliRunner().invoke(app, ["eval", "check", str(tmp_path), case.id, *given])

    assert done.exit_code == 0, done.exception
    assert f"its own checks: {', '.join(sorted(stored)) or 'none'}" in done.stderr
    found = {each.id: each for each in read_cases(suite.cases) if isinstance(each, Case)}
    assert found[case.id].checks == stored
    assert replace(found[other.id], sha256="") == other


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["nobody", "contains", "x"], "run nobody: the suite has no such case"),
        (["{}", "no_such", "x"], "no evaluator is called 'no_such'"),
        (["{}", "contains", "words: x"], "contains has no option 'words'"),
        (["{}", "contains", "[x"], "EXPECTED: not YAML"),
    ],
)
def test_a_check_that_cannot_be_is_refused(given: list[str], named: str, tmp_path: Path) -> None:
    case = history_case("shop")
    suite = made_suite(tmp_path, [case])
    before = suite.cases.read_bytes()

    done = CliRunner().invoke(
        app, ["eval", "check", str(tmp_path), *(each.format(case.id) for each in given)]
    )

    assert isinstance(done.exception, SetupError)
    assert named in str(done.exception)
    assert suite.cases.read_bytes() == before


def test_what_judging_needs_is_loaded_by_no_other_command() -> None:
    heavy = "{'pydantic_evals', 'scipy', 'numpy', 'py3langid'}"
    program = (
        "import sys, ops.main, ops.evals.show_suite, evals.suite\n"
        f"print({heavy} & {{each.partition('.')[0] for each in sys.modules}})"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
