"""The requirement list and the tests agree, in both directions (issue 2.11)."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.requirement("LAYOUT")

TESTS = Path(__file__).parents[1]
REQUIREMENTS = tomllib.loads((TESTS / "requirements.toml").read_text())


def _marked(node: ast.expr) -> Iterator[str]:
    """The ids in every `pytest.mark.requirement("A", "B")` within an expression."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.requirement":
            yield from (ast.literal_eval(arg) for arg in call.args)


def _module_ids(module: ast.Module) -> set[str]:
    return {
        name
        for statement in module.body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark"
        for name in _marked(statement.value)
    }


def _tests() -> Iterator[tuple[str, set[str]]]:
    """Every test function of the tree with the requirement ids it names."""
    for path in sorted(TESTS.rglob("test_*.py")):
        module = ast.parse(path.read_text())
        shared = _module_ids(module)
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                own = {name for mark in node.decorator_list for name in _marked(mark)}
                yield f"{path.relative_to(TESTS)}::{node.name}", shared | own


def test_every_requirement_has_its_source_and_says_what_it_asks() -> None:
    assert all(entry["says"] and entry["source"] for entry in REQUIREMENTS.values())


def test_every_test_names_a_requirement_that_exists() -> None:
    nameless = [name for name, ids in _tests() if not ids]
    unknown = {name: ids - REQUIREMENTS.keys() for name, ids in _tests() if ids - REQUIREMENTS.keys()}
    assert not nameless
    assert not unknown


def test_every_requirement_is_proved_by_a_test_or_planned() -> None:
    proved = {name for _, ids in _tests() for name in ids}
    planned = {name for name, entry in REQUIREMENTS.items() if "planned" in entry}
    assert REQUIREMENTS.keys() - proved - planned == set()
    assert proved & planned == set(), "a planned requirement that is proved is no longer planned"
