"""What a module offers is what its `__all__` says, and nobody imports more from it."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TREES = [(src, src) for kind in ("libs", "services") for src in sorted((ROOT / kind).glob("*/src"))]
TREES += [(ROOT / "tests", ROOT), (ROOT / "bench", ROOT)]


def _sources() -> Iterator[tuple[str, str]]:
    for tree, base in TREES:
        for path in sorted(tree.rglob("*.py")):
            parts = path.relative_to(base).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path.read_text()


# Only those that can have one are parsed here, as each process that collects tests runs this.
OFFERING = sorted(
    name
    for name, text in _sources()
    if "__all__" in text
    for node in ast.parse(text).body
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
)


@pytest.fixture(scope="module")
def imported() -> dict[str, set[str]]:
    """What any other module imports from each of these, modules below it apart."""
    sources = dict(_sources())
    names: dict[str, set[str]] = {name: set() for name in OFFERING}
    for importer, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.ImportFrom) or node.level or node.module not in names:
                continue
            if importer != node.module and not importer.startswith(node.module + "."):
                names[node.module] |= {alias.name for alias in node.names}
    return {
        name: {each for each in found if f"{name}.{each}" not in sources} for name, found in names.items()
    }


@pytest.mark.parametrize("name", OFFERING)
def test_all_names_what_is_there_once(name: str) -> None:
    module = importlib.import_module(name)
    assert sorted(module.__all__) == sorted(set(module.__all__))
    assert [each for each in module.__all__ if not hasattr(module, each)] == []


@pytest.mark.parametrize("name", OFFERING)
def test_all_names_whatever_others_import(name: str, imported: dict[str, set[str]]) -> None:
    assert imported[name] - set(importlib.import_module(name).__all__) == set()
