"""A suite's files: what is wrong with one is named, and half of one is never there."""

import os
import stat
from pathlib import Path

import msgspec
import pytest

from agentchat.evals.cases import encode_case, merge_cases, read_cases, write_cases
from agentchat.evals.errors import NotACase, UnfitSuite
from agentchat.evals.suite import SETTINGS, parse_settings, read_suite, render_settings, replace_file
from tests.evals.made_cases import RUNS, build_history_case, make_cases, make_suite


@pytest.mark.parametrize("name", RUNS)
def test_a_case_is_read_as_it_was_written(name: str, tmp_path: Path) -> None:
    case = build_history_case(name)
    suite = make_suite(tmp_path / "suite", [case])
    assert read_cases(suite.cases) == [case]
    assert case.fold_run().trace_id == case.id


def test_cases_are_in_the_order_of_their_ids(tmp_path: Path) -> None:
    given = make_cases(4)
    suite = make_suite(tmp_path / "suite", reversed(given))
    assert [each.id for each in read_cases(suite.cases)] == [each.id for each in given]


def test_a_case_that_is_collected_again_keeps_its_evaluators() -> None:
    one, two = make_cases(2)
    own = msgspec.structs.replace(one, evaluators=({"Contains": {"value": "Bye"}},), message="before")
    found = {each.id: each for each in merge_cases([own], [one, two])}
    assert found[one.id].evaluators == own.evaluators
    assert found[one.id].message == one.message
    assert found[two.id] == two


def test_a_case_without_its_run_is_named() -> None:
    (case,) = make_cases(1)
    with pytest.raises(NotACase, match="hold no such run that has ended"):
        msgspec.structs.replace(case, id="f" * 32).fold_run()
    broken = msgspec.structs.replace(case, events=(msgspec.Raw(b'{"type":"no_such.v9"}'),))
    with pytest.raises(NotACase, match="cannot be read"):
        broken.fold_run()


def test_an_invalid_case_is_reported_with_its_line(tmp_path: Path) -> None:
    suite = make_suite(tmp_path / "suite", make_cases(2))
    suite.cases.write_bytes(suite.cases.read_bytes() + b'{"id":"x"}\n')
    with pytest.raises(UnfitSuite, match=r"cases.jsonl: line 3: Object missing required field"):
        read_cases(suite.cases)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("repeats: 0", "repeats: Expected `int` >= 1"),
        ("tools: {unrecorded: live}", "contains unknown field `tools`"),
        ("redact: [{function: 'rules:find'}]", "redact[0]: Object contains unknown field `function`"),
        ("redact: [{name: a}]", "redact[0]: Expected either `pattern` or `field`"),
        ("thresholds: {Facts: {drop: 2}}", "Expected `float` <= 1.0"),
        ("thresholds: {not_run: no}", "Expected `float`"),
        ("budget: {tokens: 0}", "budget.tokens: Expected `int` >= 1"),
        ("[", "not YAML"),
    ],
)
def test_a_wrong_setting_is_named(settings: str, told: str) -> None:
    with pytest.raises(UnfitSuite) as refused:
        parse_settings(f"agent: g\naccount: a\n{settings}".encode())
    assert str(refused.value).startswith(f"{SETTINGS}: ")
    assert told in str(refused.value)


def test_a_new_suite_has_rules_that_find_what_most_logs_have() -> None:
    found = parse_settings(render_settings("g", "a"))
    assert [each.label for each in found.redact] == ["email", "phone", "card", "iban"]


def test_the_agent_of_another_suite_is_refused(tmp_path: Path) -> None:
    suite = make_suite(tmp_path / "suite")
    (suite.folder / SETTINGS).write_text("agent: other\naccount: account-1\n")
    with pytest.raises(UnfitSuite, match="names another one: collect again"):
        read_suite(suite.folder)


def test_half_a_file_is_never_there(tmp_path: Path) -> None:
    suite = make_suite(tmp_path / "suite", make_cases(1))
    before = suite.cases.read_bytes()

    def fail_halfway() -> None:
        with replace_file(suite.cases) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert suite.cases.read_bytes() == before == encode_case(make_cases(1)[0])
    assert not [each for each in suite.folder.iterdir() if each.name.endswith(".partial")]
    assert stat.S_IMODE(os.stat(suite.cases).st_mode) == 0o600


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnfitSuite, match=r"cases.jsonl: cannot be written"):
        write_cases(tmp_path / "nowhere" / "cases.jsonl", [])
