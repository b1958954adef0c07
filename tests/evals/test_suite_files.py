"""A suite's files: what is read is what was written, and what is wrong is named by its place."""

import json
import stat
import tracemalloc
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.case_file import DamagedCase, case_line, read_cases, writing_cases
from evals.cases import Case
from evals.errors import UnfitSuite
from evals.recorded_run import run_of_case
from evals.suite import AGENT, SETTINGS, read_settings, read_suite
from tests.evals.made_cases import RUNS, history_case, made_suite


@pytest.mark.parametrize("name", RUNS)
def test_a_case_holds_its_run_as_it_was_recorded(name: str, tmp_path: Path) -> None:
    case = history_case(name)

    (read,) = read_cases(made_suite(tmp_path, [case]).cases)

    assert isinstance(read, Case)
    assert msgspec.structs.replace(read, sha256="") == case
    assert [bytes(each) for each in read.events] == [bytes(each) for each in case.events]
    assert run_of_case(read).trace_id == case.id


def test_a_suite_is_read_as_it_was_written(tmp_path: Path) -> None:
    suite = made_suite(
        tmp_path / "suite",
        settings="""
evaluators:
  - name: contains
    text: ORD-1001
  - name: judge
    rubric: It is polite.
thresholds: {equal: 0.9}
budget: {money: 2.5, tokens: 100000}
repeats: 3
concurrency: 8
rate: 2
tools: {unrecorded: live, harmless: [get_order]}
judge: {provider: openai, model: gpt-x}
redact:
  - {name: email, pattern: '\\S+@\\S+', replacement: 'person{n}@example.com'}
  - field: get_order.input.email
  - function: rules:find_names
baseline: main.jsonl
""",
    )

    settings = suite.settings

    assert settings.evaluators[1] == {"name": "judge", "rubric": "It is polite."}
    assert settings.budget.tokens == 100_000
    assert settings.rate == 2.0
    assert settings.tools.harmless == ("get_order",)
    assert [rule.label for rule in settings.redact] == ["email", "get_order.input.email", "rules:find_names"]
    assert suite.agent.settings.system_prompt == "Be kind."
    assert stat.S_IMODE(suite.cases.stat().st_mode) == 0o600


def test_the_settings_in_the_documentation_are_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/analyse/evals.md").read_text()
    (tmp_path / SETTINGS).write_text("agent: " + page.partition("```yaml\nagent: ")[2].partition("```")[0])

    assert read_settings(tmp_path).redact[0].label == "email"


@pytest.mark.parametrize(
    ("added", "named"),
    [
        ("repeats: often", "repeats: Expected `int`, got `str`"),
        ("repeats: 0", "repeats: Expected `int` >= 1"),
        ("tools: {unrecorded: maybe}", "tools.unrecorded: Invalid enum value 'maybe'"),
        ("budget: {money: -1}", "budget.money: Expected `float` > 0.0"),
        ("redact: [{name: x}]", "redact[0]: Expected one of `pattern`, `field` and `function`"),
        ("redact: [{pattern: a, field: b}]", "redact[0]: Expected one of"),
        ("judge: {provider: acme}", "judge: Expected `provider` to be one of anthropic, openai"),
        ("evaluators: [{text: x}]", "Expected `evaluators[0]` to have a `name`"),
        ("evaluators: equal", "evaluators: Expected `array`"),
        ("evaluator: []", "unknown field `evaluator`"),
        ("redact: [", "not YAML: while parsing"),
    ],
)
def test_what_is_wrong_in_the_settings_is_named_by_its_field(added: str, named: str, tmp_path: Path) -> None:
    (tmp_path / SETTINGS).write_text(f"agent: a\naccount: b\n{added}\n")

    with pytest.raises(UnfitSuite) as raised:
        read_settings(tmp_path)

    assert str(raised.value).startswith(f"{SETTINGS}: ")
    assert named in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_missing_or_does_not_fit_is_named(tmp_path: Path) -> None:
    suite = made_suite(tmp_path)
    suite.cases.unlink()
    with pytest.raises(UnfitSuite, match=r"cases\.jsonl: cannot be read"):
        list(read_cases(suite.cases))

    (tmp_path / AGENT).write_text('{"agent_id": 1}')
    with pytest.raises(UnfitSuite, match=r"agent\.json: agent_id: Expected `str`"):
        read_suite(tmp_path)

    made_suite(tmp_path)
    (tmp_path / SETTINGS).write_text("agent: agent-2\naccount: account-1")
    with pytest.raises(UnfitSuite, match=r"agent\.json: is agent agent-1 .* suite\.yaml names another one"):
        read_suite(tmp_path)

    (tmp_path / SETTINGS).unlink()
    with pytest.raises(UnfitSuite, match=r"suite\.yaml: cannot be read"):
        read_suite(tmp_path)


@given(data=st.data())
def test_a_case_whose_bytes_were_changed_is_damaged(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    line = case_line(history_case("first_release"))
    place = data.draw(st.integers(0, len(line) - 2))
    byte = data.draw(st.integers(32, 126).filter(lambda each: each != line[place]))
    path = tmp_path_factory.mktemp("case") / "cases.jsonl"
    path.write_bytes(line[:place] + bytes([byte]) + line[place + 1 :])

    (read,) = read_cases(path)

    assert isinstance(read, DamagedCase)
    assert str(read).startswith("cases.jsonl line 1: ")


def test_each_damaged_line_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    cases = sorted((history_case(name) for name in ("shop", "sources", "failed")), key=lambda each: each.id)
    lines = [case_line(each) for each in cases]
    edited = lines[1].replace(b'"slices":{"end":"completed"}', b'"slices":{"end":"cancelled"}')
    assert edited != lines[1]
    path = tmp_path / "cases.jsonl"
    path.write_bytes(b"".join([lines[0], edited, lines[0], b"[]\n", lines[2], lines[2][:-40]]))

    read = list(read_cases(path))

    assert [each.id for each in read if isinstance(each, Case)] == [cases[0].id, cases[2].id]
    assert [str(each) for each in read if isinstance(each, DamagedCase)] == [
        f"cases.jsonl line 2: case {cases[1].id}: its bytes do not fit its sha256: they were changed",
        f"cases.jsonl line 3: case {cases[0].id}: it comes after case {cases[0].id}: "
        "the file is in the order of ids, each once",
        "cases.jsonl line 4: it does not end with its sha256",
        "cases.jsonl line 6: the line is cut short",
    ]


def test_a_line_of_another_release_fits_its_hash(tmp_path: Path) -> None:
    """One with a member that this release does not know, and without one that it has."""
    body = json.loads(case_line(history_case("shop")))
    del body["sha256"], body["redacted"]
    prefix = json.dumps({"mood": "good"} | body).encode().removesuffix(b"}")
    digest = sha256(prefix + b"}").hexdigest()
    path = tmp_path / "cases.jsonl"
    path.write_bytes(prefix + f',"sha256":"{digest}"}}\r\n'.encode())

    (read,) = read_cases(path)

    assert isinstance(read, Case)
    assert read.redacted == ()


def test_writing_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    suite = made_suite(tmp_path, [history_case("shop")])
    before = suite.cases.read_bytes()

    def cases() -> Iterator[Case]:
        yield history_case("sources")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), writing_cases(suite.cases) as file:
        list(map(file.add, cases()))

    assert suite.cases.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent.json", "cases.jsonl", "suite.yaml"]


def test_ten_thousand_cases_are_read_one_at_a_time(tmp_path: Path) -> None:
    case = history_case("first_release")
    path = tmp_path / "cases.jsonl"
    with writing_cases(path) as file:
        for number in range(10_000):
            file.add(msgspec.structs.replace(case, id=f"{number:032x}"))

    tracemalloc.start()
    try:
        read = sum(isinstance(each, Case) for each in read_cases(path))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert read == 10_000
    assert most < 2 * 1024 * 1024
