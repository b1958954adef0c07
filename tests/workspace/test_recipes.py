"""The recipes of CONTRIBUTING.md name the files that they touch, and work together in a copy of the tree."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import temporary_folder

pytestmark = [pytest.mark.requirement("RECIPES"), pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
_PAGE = (ROOT / "CONTRIBUTING.md").read_text()
_SECTIONS = re.split(r"^### ", _PAGE, flags=re.MULTILINE)[1:]
_PATCH = re.compile(r"\[(docs/recipes/[a-z-]+\.diff)\]")
_FILE = re.compile(r"`((?:docs|libs|services|tests)/[\w./-]+\.(?:py|md|toml|json))`")
_STEP = re.compile(r"^\d+\. .*?(?=^\d+\. |^\S|\Z)", re.MULTILINE | re.DOTALL)
_COPIED = ("bench", "deploy", "docs", "examples", "libs", "services", "tests")
_READ_FROM = (
    "models/port.py",
    "agent_draft.py",
    "dialects.py",
    "contracts/updates.py",
    "histories/record.py",
)
"""Files that a recipe sends its reader to, and does not change."""
_PROOFS = (
    "tests/mcp_demo/test_listing.py",
    "tests/mcp_demo/test_every_tool.py",
    "tests/orchestrator/test_reply_language.py",
    "tests/orchestrator/test_canned_provider.py",
    "tests/conversations/test_labels.py",
    "tests/conversations/test_histories.py",
    *("tests/contracts/test_wire.py", "tests/contracts/test_asyncapi.py", "tests/contracts/test_released.py"),
    "tests/gateway/test_plain.py",
    "tests/gateway/test_openapi.py",
    "tests/requirements",
)


def _patch(section: str) -> Path:
    found = _PATCH.search(section)
    assert found is not None, section
    return ROOT / found[1]


def _touched(patch: Path) -> set[str]:
    return set(re.findall(r"^diff --git a/\S+ b/(\S+)$", patch.read_text(), re.MULTILINE))


@pytest.mark.parametrize("section", _SECTIONS, ids=lambda section: _patch(section).stem)
def test_a_recipe_names_the_files_that_are_touched(section: str) -> None:
    steps = "".join(_STEP.findall(section))
    named = {path for path in _FILE.findall(steps) if not path.endswith(_READ_FROM)}
    assert named == _touched(_patch(section))


def test_every_patch_has_its_recipe() -> None:
    assert {_patch(section) for section in _SECTIONS} == set((ROOT / "docs/recipes").iterdir())


def test_in_a_copy_one_of_each_is_added_and_works() -> None:
    with temporary_folder() as folder:
        copy = folder / "copy"
        for name in _COPIED:
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for path in ROOT.iterdir():
            if path.is_file():
                shutil.copy(path, copy)
        for section in _SECTIONS:
            _run(copy, "git", "apply", "--unidiff-zero", str(_patch(section)))
        _run(copy, sys.executable, "-m", "ruff", "check", "--no-cache", ".")
        _run(copy, sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *_PROOFS)


def _run(copy: Path, *command: str) -> None:
    """Run a command that uses the copy's packages and no others."""
    sources = [*copy.glob("libs/*/src"), *copy.glob("services/*/src")]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environ["PYTHONPATH"] = os.pathsep.join(map(str, [copy, *sources]))
    done = subprocess.run(command, cwd=copy, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
