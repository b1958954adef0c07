"""Leaves unloaded what packages import and we never use: it would take memory in each process."""

import ast
import contextlib
import functools
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any


@contextlib.contextmanager
def without(*modules: str) -> Iterator[None]:
    """Inside, imports of these fail, as if they were not installed: for code that can do without them.

    One that has been imported before stays imported. Outside they are imported as usual.
    """
    hidden = [name for name in modules if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # an import of it fails
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def defer(*packages: str) -> None:
    """Load modules of these packages one by one: those that are imported, or whose names are requested.

    Such a name is one that the package's `__init__` imports from its own modules. For any other name the
    `__init__` is run. To be called before anything imports the packages; a package before those inside it.
    Raises ModuleNotFoundError.
    """
    for name in packages:
        if name in sys.modules:
            continue
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            raise ModuleNotFoundError(name=name)
        package = importlib.util.module_from_spec(spec)
        package.__class__ = _Deferred
        sys.modules[name] = package
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, package)


class _Deferred(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name in (imported := _imported(self.__file__)):
            module, original = imported[name]
            value = getattr(importlib.import_module(module, self.__name__), original)
            setattr(self, name, value)
            return value
        full_name = f"{self.__name__}.{name}"
        try:
            return importlib.import_module(full_name)
        except ModuleNotFoundError as error:
            if error.name != full_name:
                raise
        spec = self.__spec__
        assert spec is not None
        assert spec.loader is not None
        self.__class__ = ModuleType  # type: ignore[assignment]  # from now on it is a usual module
        spec.loader.exec_module(self)
        return getattr(self, name)


@functools.cache
def _imported(init: str) -> dict[str, tuple[str, str]]:
    """What an `__init__` imports from modules of its package: by its name, the module and its name there."""
    return {
        alias.asname or alias.name: ("." * each.level + each.module, alias.name)
        for each in ast.parse(Path(init).read_bytes()).body
        if isinstance(each, ast.ImportFrom) and each.level and each.module
        for alias in each.names
    }
