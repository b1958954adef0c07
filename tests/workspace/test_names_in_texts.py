"""Modules, files and decisions that docstrings, comments and pages name exist."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_NAMESPACE = "src/agentchat"
_FOLDERS = [path for path in ROOT.glob(f"*/*/{_NAMESPACE}/*") if path.is_dir()]
_PACKAGES = "|".join(sorted({path.name for path in _FOLDERS}))
_MODULE = re.compile(rf"`(?:agentchat\.)?((?:{_PACKAGES})(?:\.[A-Za-z_]\w*)+)(?:\(\))?`")
_PLACES = "docs/(?:integrate|operate|analyse|change|decisions)|tests|deploy|libs|services|bench"
_FILE = re.compile(rf"(?<![\w./-])((?:{_PLACES})/[\w./-]+\.(?:py|md|sql|conf|yaml))")
_PATH = re.compile(r"`((?:[a-z_-]+/)+(?:[a-z_-]+(?:\.py)?)?)`")
_TOP = tuple(f"{place.name}/" for place in [*ROOT.glob("*/"), *_FOLDERS] if place.is_dir())
_DECISION = re.compile(r"\bdecisions? (\d+)(?:(?:, (\d+))* and (\d+))?")
_EXEMPT = ("CHANGELOG.md", "docs/decisions/", "tests/workspace/")
"""Texts about the past, and examples of names."""


@cache
def list_texts() -> list[tuple[str, str]]:
    listed = subprocess.run(
        ["git", "ls-files", "libs", "services", "tests", "bench", "docs", "README.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    paths = [path for path in listed if path.endswith((".py", ".md")) and not path.startswith(_EXEMPT)]
    return [(path, (ROOT / path).read_text()) for path in paths if (ROOT / path).is_file()]


@cache
def find_source(module: str) -> str | None:
    """Return the source of a module or package, without the namespace; None if there is none."""
    path = module.replace(".", "/")
    for root in ROOT.glob(f"*/*/{_NAMESPACE}"):
        for file in (root / f"{path}.py", root / path / "__init__.py"):
            if file.is_file():
                return file.read_text()
    return None


def is_defined(name: str) -> bool:
    """Return True for a module, and for a name in one; a package passes on the names of its modules."""
    if find_source(name) is not None:
        return True
    module, _, last = name.rpartition(".")
    source = find_source(module) if module else None
    if source is None and module:
        return is_defined(module)
    return source is not None and re.search(rf"\b{last}\b", source) is not None


def test_modules_that_texts_name_exist() -> None:
    missing = {f"{path}: {name}" for path, text in list_texts() for name in _MODULE.findall(text)}
    assert sorted(each for each in missing if not is_defined(each.partition(": ")[2])) == []


def test_files_that_texts_name_exist() -> None:
    named = {(path, name) for path, text in list_texts() for name in _FILE.findall(text)}
    assert sorted(f"{path}: {name}" for path, name in named if not (ROOT / name).exists()) == []


def test_paths_that_pages_name_are_there() -> None:
    """From the top of the repository, or from the folder that holds a package."""
    places = (ROOT, *ROOT.glob("*/*/src/agentchat"))
    named = {
        (path, name)
        for path, text in list_texts()
        if path.startswith(("README.md", "docs/"))
        for name in _PATH.findall(text)
        if name.startswith(_TOP)
    }
    assert len(named) > 20
    missing = [each for each in named if not any((place / each[1]).exists() for place in places)]
    assert sorted(f"{path}: {name}" for path, name in missing) == []


def test_decisions_that_texts_name_exist() -> None:
    pages = "\n".join(page.read_text() for page in (ROOT / "docs" / "decisions").glob("*.md"))
    known = set(re.findall(r"^## (\d+)\.", pages, re.MULTILINE))
    named = {
        (path, number)
        for path, text in list_texts()
        for found in _DECISION.findall(text)
        for number in found
        if number
    }
    assert sorted(f"{path}: {number}" for path, number in named if number not in known) == []


@pytest.mark.parametrize(
    ("name", "is_known"),
    [
        ("gateway", True),
        ("contracts.wire", True),
        ("contracts.wire.encode", True),
        ("bus.bus.Bus.connect", True),
        ("contracts.no_such_module", False),
        ("contracts.wire.no_such_name", False),
        ("no_such_package.wire", False),
    ],
)
def test_a_name_is_looked_up_in_its_module(name: str, is_known: bool) -> None:
    assert is_defined(name) is is_known
