"""What a module offers is what its `__all__` says, and nobody imports more from it."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.requirement("LAYOUT")

ROOT = Path(__file__).parents[2]
TREES = [(src, src) for kind in ("libs", "services") for src in sorted((ROOT / kind).glob("*/src"))]
TREES += [(ROOT / "tests", ROOT), (ROOT / "bench", ROOT)]


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for tree, base in TREES:
        for path in sorted(tree.rglob("*.py")):
            parts = path.relative_to(base).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), ast.parse(path.read_text())


PARSED = list(_modules())
OFFERING = sorted(
    name
    for name, module in PARSED
    for node in module.body
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
)


def _imported_from(name: str) -> set[str]:
    """What any other module imports from this one, modules below it apart."""
    names = {
        alias.name
        for importer, module in PARSED
        if importer != name and not importer.startswith(name + ".")
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and node.module == name and not node.level
        for alias in node.names
    }
    return {each for each in names if f"{name}.{each}" not in {name for name, _ in PARSED}}


@pytest.mark.parametrize("name", OFFERING)
def test_all_names_what_is_there_once(name: str) -> None:
    module = importlib.import_module(name)
    assert sorted(module.__all__) == sorted(set(module.__all__))
    assert [each for each in module.__all__ if not hasattr(module, each)] == []


@pytest.mark.parametrize("name", OFFERING)
def test_all_names_whatever_others_import(name: str) -> None:
    assert _imported_from(name) - set(importlib.import_module(name).__all__) == set()
