"""What is left unloaded is loaded when somebody asks for it after all."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from runtime.imports import defer, without


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with a module that its `__init__` does not import, and one inside it."""
    files = {
        "shop/__init__.py": "from .gates import GATES as WAYS_IN\nOPEN = True\nfrom .tills import *\n",
        "shop/gates.py": "GATES = 2\n",
        "shop/tills/__init__.py": "from shop.gates import GATES\nTILLS = 3 * GATES\n",
        "shop/tills/drawer.py": "COINS = 8\n",
        "shop/broken.py": "import there_is_no_such_module\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("shop", "shop.gates", "shop.tills", "shop.tills.drawer", "shop.broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "shop"


def imported(name: str) -> ModuleType:
    __import__(name)
    return sys.modules[name]


def test_a_module_of_a_deferred_package_is_imported_alone(shop: str) -> None:
    defer(shop, "shop.tills")
    assert imported("shop.tills.drawer").COINS == 8
    assert imported(shop).gates.GATES == 2
    assert "OPEN" not in vars(sys.modules[shop])
    assert "TILLS" not in vars(sys.modules["shop.tills"])


def test_a_name_is_taken_from_the_module_that_a_deferred_package_has_it_from(shop: str) -> None:
    defer(shop)
    assert imported(shop).WAYS_IN == 2
    assert "OPEN" not in vars(sys.modules[shop])
    assert "shop.tills" not in sys.modules


def test_a_deferred_package_is_loaded_when_something_else_is_asked_of_it(shop: str) -> None:
    defer(shop, "shop.tills")
    package = imported(shop)
    assert (package.OPEN, package.TILLS, package.tills.TILLS) == (True, 6, 6)
    assert package is sys.modules[shop]
    with pytest.raises(AttributeError, match="CLOSED"):
        _ = package.CLOSED


def test_what_fails_in_a_module_is_raised(shop: str) -> None:
    defer(shop)
    with pytest.raises(ModuleNotFoundError, match="there_is_no_such_module"):
        _ = sys.modules[shop].broken


def test_a_package_that_is_loaded_stays_so(shop: str) -> None:
    package = imported(shop)
    defer(shop)
    assert sys.modules[shop] is package
    with without(shop):
        assert imported(shop) is package


def test_what_is_hidden_is_found_again_after_the_block(shop: str) -> None:
    with without(shop), pytest.raises(ModuleNotFoundError):
        imported(shop)
    assert imported(shop).OPEN


def test_nothing_can_be_deferred_that_is_not_there() -> None:
    with pytest.raises(ModuleNotFoundError):
        defer("there_is_no_such_module")


_BUILT = "from model_demo.app import build; build()"


@pytest.mark.parametrize(
    ("made", "unloaded"),
    [
        ("import bus", {"aiohttp"}),
        ("import limits", {"opentelemetry.sdk", "psutil"}),
        ("import orchestrator.models.anthropic", {"anthropic.resources.beta", "anthropic.lib.vertex"}),
        (_BUILT, {"pydantic", "attr", "attrs"}),
    ],
)
def test_what_is_not_used_takes_no_memory(made: str, unloaded: set[str]) -> None:
    """In a process of its own: this one has loaded all of it."""
    code = f"import sys; {made}; print(*sys.modules)"
    loaded = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True).stdout
    assert not unloaded & set(loaded.split())
