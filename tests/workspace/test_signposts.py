"""Check names by which a newcomer finds a file, a class or a function."""

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONVENTIONAL = {
    *("__init__", "__main__", "app", "client", "errors", "health", "migrations", "routes"),
    *("service", "settings", "worker"),
}
"""Module names that may repeat in each package."""
VERBS = set(Path(__file__).with_name("verbs.txt").read_text().split())
"""First words of functions: verbs, and the words of predicates (`is_`) and conversions (`from_`)."""
NOT_OURS = {
    *("connection_made", "connection_lost", "data_received", "auth_flow", "startup", "validateLink"),
    *("application_recorder", "tracking_recorder"),
}
"""Names that asyncio, httpx, uvicorn, markdown-it and eventsourcing prescribe."""
NOUNS = {
    *("now", "after", "seconds_since", "of", "json", "url", "pretty", "mcp", "healthz", "readyz", "health"),
    *("lifespan", "connection", "transaction", "need_bus", "command"),
}
"""Names that read well as they are: clocks, constructors, ASGI hooks, context managers, what people type."""
FRAGMENTS = r"(What|Whether|Of|For|Those|Its|As|So|Where|Until|Who|Whose|Which|If|By|With|From) "
"""First words of a text that is no sentence and names nothing."""
NAMED_ELSEWHERE = ("property", "fixture", "command", "callback", "setter", "get(", "post(")
"""Decorators of functions that are values, or that a library or a command line names."""


@functools.cache
def _parse(*folders: str) -> dict[Path, ast.Module]:
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT): ast.parse(path.read_text()) for path in paths}


def _list_functions(*folders: str) -> Iterator[tuple[str, str]]:
    for path, tree in _parse(*folders).items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                decorators = " ".join(map(ast.unparse, node.decorator_list))
                if not node.name.startswith("__") and not any(each in decorators for each in NAMED_ELSEWHERE):
                    yield f"{path}:{node.lineno}", node.name


def test_module_names_are_unique() -> None:
    names = Counter(path.stem for path in _parse("libs", "services", "bench"))
    repeated = {name for name, count in names.items() if count > 1} - CONVENTIONAL
    assert len(repeated) <= 10, sorted(repeated)


def test_public_class_names_are_unique() -> None:
    names = Counter(
        name
        for tree in _parse("libs", "services").values()
        for name in {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        if not name.startswith("_")
    )
    repeated = {name for name, count in names.items() if count > 1}
    assert len(repeated) <= 8, sorted(repeated)


def test_functions_start_with_a_verb() -> None:
    odd = [
        f"{place} {name}"
        for place, name in _list_functions("libs", "services", "bench")
        if name.strip("_").split("_")[0] not in VERBS and name not in NOT_OURS | NOUNS
        if "/client/async_client.py" not in place  # it has the names of the API's resources
    ]
    assert odd == []


def test_texts_of_values_begin_with_a_noun() -> None:
    fragments = [
        f"{path}:{node.lineno} {text}"
        for path, tree in _parse("libs", "services", "bench").items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(text := node.value.value, str) and re.match(FRAGMENTS, text)
    ]
    assert fragments == []


def test_test_names_are_short() -> None:
    long = [
        f"{path.relative_to(ROOT)} {name}"
        for path in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r"def (test_\w{61,})\(", path.read_text())
    ]
    assert long == []
