"""Modules, files and decisions that docstrings, comments and pages name exist."""

import ast
import re
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_NAMESPACE = "src/agentchat"
_FOLDERS = [path for path in ROOT.glob(f"*/*/{_NAMESPACE}/*") if path.is_dir()]
_PACKAGES = {file.parent.name for folder in _FOLDERS for file in folder.rglob("*.py")}
_NAME = re.compile(r"`(?:agentchat\.)?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\(\))?`")
_PLACES = "docs/(?:integrate|operate|analyse|change|decisions)|tests|deploy|libs|services|bench"
_FILE = re.compile(rf"(?<![\w./-])((?:{_PLACES})/[\w./-]+\.(?:py|md|sql|conf|yaml))")
_PATH = re.compile(r"`((?:[a-z_-]+/)+(?:[a-z_-]+(?:\.py)?)?)`")
_TOP = tuple(f"{place.name}/" for place in [*ROOT.glob("*/"), *_FOLDERS] if place.is_dir())
_LISTED = re.compile(r"(?:^-|[;,]) `([a-z_]+)`")
_DECISION = re.compile(r"\bdecisions? (\d+)(?:(?:, (\d+))* and (\d+))?")
_EXEMPT = ("CHANGELOG.md", "docs/decisions/", "tests/workspace/")
"""Texts about the past, and examples of names."""
_NOT_OURS = re.compile(
    r"chat\.(tools|models|replay)\..*|thinking\.block_binding.*|mcp\.client\..*"
    r"|run\.(completed|failed|cancelled)|.*\.(env|js|jsonl|parquet|yaml)"
)
"""Subjects of NATS, fields of APIs, modules of libraries, types of webhooks, and files: not our modules."""


@cache
def list_files() -> list[tuple[str, str]]:
    listed = subprocess.run(
        ["git", "ls-files", "libs", "services", "tests", "bench", "examples", "docs", "README.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    paths = [path for path in listed if path.endswith((".py", ".md"))]
    return [(path, (ROOT / path).read_text()) for path in paths if (ROOT / path).is_file()]


def list_texts() -> list[tuple[str, str]]:
    return [(path, text) for path, text in list_files() if not path.startswith(_EXEMPT)]


@cache
def index_modules() -> dict[str, list[str]]:
    """Return the sources of each module and package by each end of its dotted name, such as `bus.errors`."""
    sources: dict[str, list[str]] = {}
    for path, source in list_files():
        if path.endswith(".py"):
            parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
            for length in range(1, len(parts) + 1):
                sources.setdefault(".".join(parts[-length:]), []).append(source)
    return sources


@cache
def list_identifiers(source: str) -> frozenset[str]:
    found: set[str | None] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.alias():
                found |= {node.asname or node.name}
            case ast.Name():
                found.add(node.id)
            case ast.Attribute():
                found.add(node.attr)
    return frozenset(filter(None, found))


def is_defined(name: str) -> bool:
    """Return True for a module, and for names in one, of which the first parts may be left out."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if sources := index_modules().get(".".join(parts[:length])):
            return any(list_identifiers(source).issuperset(parts[length:]) for source in sources)
    return False


def list_module_names(path: str, text: str) -> Iterable[str]:
    """Return files such as `app.py`, and names that begin with a package, or in code with a module."""
    for name in _NAME.findall(text):
        first, _, rest = name.partition(".")
        if rest == "py":
            yield first
            continue
        is_ours = first in _PACKAGES or (path.endswith(".py") and first in index_modules())
        if is_ours and not _NOT_OURS.fullmatch(name):
            yield name


def test_modules_that_texts_name_exist() -> None:
    texts = [(path, text) for path, text in list_files() if not path.startswith("tests/workspace/")]
    named = {(path, name) for path, text in texts for name in list_module_names(path, text)}
    assert len(named) > 200
    assert sorted(f"{path}: {name}" for path, name in named if not is_defined(name)) == []


def test_modules_that_packages_list_exist() -> None:
    packages = [ROOT / path for path, _ in list_files() if path.endswith("/__init__.py")]
    listed = {
        package.parent / name
        for package in packages
        for line in package.read_text().splitlines()
        if line.startswith("- ")
        for name in _LISTED.findall(line)
    }
    assert len(listed) > 50
    missing = {path for path in listed if not path.is_dir() and not path.with_suffix(".py").is_file()}
    assert sorted(str(path.relative_to(ROOT)) for path in missing) == []


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
        ("bus.bus.Bus.no_such_method", False),
        ("event_store.append_writer", True),
        ("event_store.no_such_module", False),
        ("connection.PING_SECONDS", True),
        ("contracts.no_such_module", False),
        ("contracts.wire.no_such_name", False),
        ("no_such_package.wire", False),
    ],
)
def test_a_name_is_looked_up_in_its_module(name: str, is_known: bool) -> None:
    assert is_defined(name) is is_known
