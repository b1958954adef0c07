"""Our code uses no private members of libraries, inherited or of other objects.

The linter refuses the latter (SLF001) but where a line has an exception, and the exceptions are counted here.
"""

import functools
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXCEPTIONS: dict[str, int] = {}
"""Lines with an exception from SLF001, by file."""
_EXCEPTION = re.compile(r"# noqa:.*\bSLF001\b")
_OF_PYTHON = {"_abc_impl", "_is_protocol"}


def _iterate_modules() -> Iterator[str]:
    for source in ROOT.glob("*/*/src"):
        for path in source.rglob("*.py"):
            if path.stem != "__main__":
                yield ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


MODULES = sorted(_iterate_modules())
_NOT_LIBRARIES = {name.partition(".")[0] for name in MODULES} | sys.stdlib_module_names


def _find_private(source: str) -> set[str]:
    return set(re.findall(r"self\.(_[a-z]\w*)", source))


def _is_of_a_library(cls: type) -> bool:
    return cls.__module__.partition(".")[0] not in _NOT_LIBRARIES


def _find_used(cls: type) -> set[str]:
    bases = list(filter(_is_of_a_library, cls.__mro__))
    if not bases:
        return set()
    theirs = {name for base in bases for name in _list_members(base)}
    ours = _find_private(inspect.getsource(cls)) | set(vars(cls))
    return {name for name in ours & theirs if re.match(r"_[a-z]", name)} - _OF_PYTHON


@functools.cache
def _list_members(base: type) -> frozenset[str]:
    try:
        return frozenset(vars(base)) | _find_private(inspect.getsource(base))
    except (OSError, TypeError):
        return frozenset(vars(base))  # compiled


def _iterate_classes(module: str) -> Iterator[type]:
    for cls in vars(importlib.import_module(module)).values():
        if not inspect.isclass(cls) or cls.__module__ != module or hasattr(cls, "__struct_fields__"):
            continue
        if "[" not in cls.__qualname__:  # pydantic makes `Dataset[A]` at run time, without a source
            yield cls


def test_classes_use_no_private_members_of_their_bases() -> None:
    classes = [cls for name in MODULES for cls in _iterate_classes(name)]
    used = {f"{cls.__module__}.{cls.__qualname__}": _find_used(cls) for cls in classes}
    assert {name: members for name, members in used.items() if members} == {}


def test_the_exceptions_from_the_linters_rule_are_these() -> None:
    found = {
        str(path.relative_to(ROOT)): len(_EXCEPTION.findall(path.read_text()))
        for source in ROOT.glob("*/*/src")
        for path in source.rglob("*.py")
    }
    assert {path: count for path, count in found.items() if count} == EXCEPTIONS
