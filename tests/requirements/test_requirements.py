"""docs/change/specification.md, the list of its requirements and the tests agree, each with each."""

import ast
import functools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.requirement("LAYOUT")

TESTS = Path(__file__).parents[1]
REQUIREMENTS: dict[str, str] = tomllib.loads((TESTS / "requirements.toml").read_text())
SPECIFICATION = (TESTS.parent / "docs" / "change" / "specification.md").read_text()


def _marked(node: ast.expr) -> Iterator[str]:
    """The ids in every `pytest.mark.requirement("A", "B")` within an expression."""
    for call in ast.walk(node):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        if call.func.attr == "requirement" and ast.unparse(call.func) == "pytest.mark.requirement":
            yield from (ast.literal_eval(arg) for arg in call.args)


def _module_ids(module: ast.Module) -> set[str]:
    return {
        name
        for statement in module.body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark"
        for name in _marked(statement.value)
    }


@functools.cache
def _tests() -> tuple[tuple[str, set[str]], ...]:
    return tuple(_read_tests())


def _read_tests() -> Iterator[tuple[str, set[str]]]:
    """Every test function of the tree with the requirement ids it names."""
    for path in sorted(TESTS.rglob("test_*.py")):
        module = ast.parse(path.read_text())
        shared = _module_ids(module)
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                own = {name for mark in node.decorator_list for name in _marked(mark)}
                yield f"{path.relative_to(TESTS)}::{node.name}", shared | own


def _specified() -> Iterator[tuple[str, str]]:
    """Each requirement of the specification with the number of its section."""
    for section in re.split(r"^## ", SPECIFICATION, flags=re.MULTILINE)[1:]:
        for name in re.findall(r"^- \*\*([A-Z0-9-]+)\*\*: \S", section, re.MULTILINE):
            yield name, section.partition(".")[0]


def test_the_specification_and_the_list_hold_the_same_requirements_once() -> None:
    assert sorted(name for name, _ in _specified()) == sorted(REQUIREMENTS)


def test_every_requirement_names_its_section_of_the_specification_first() -> None:
    first = {name: source.split("; ")[0] for name, source in REQUIREMENTS.items()}
    assert first == {name: f"specification {section}" for name, section in _specified()}


def test_every_test_names_a_requirement_that_exists() -> None:
    nameless = [name for name, ids in _tests() if not ids]
    unknown = {name: ids - REQUIREMENTS.keys() for name, ids in _tests() if ids - REQUIREMENTS.keys()}
    assert not nameless
    assert not unknown


def test_every_requirement_is_proved_by_a_test() -> None:
    assert REQUIREMENTS.keys() - {name for _, ids in _tests() for name in ids} == set()
