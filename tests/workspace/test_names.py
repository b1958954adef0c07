"""`make check` refuses words that only this project used, and two public classes of one name."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

_PATH = Path(__file__).resolve().parents[2] / "deploy/check_names.py"
_SPEC = importlib.util.spec_from_file_location("check_names", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
check_names = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(check_names)

RULES: dict[str, Any] = {
    "words": {"gate": "API"},
    "exceptions": {"paths": ["old/"]},
    "classes": {"Settings": 2},
}


@pytest.mark.parametrize(
    "text", ["# The gate.", "_gate_of = 1", "class OpenGate: ...", "GATE = 2", 'print("a gate")']
)
def test_a_word_is_found_wherever_it_stands(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.py").write_text(f"import os\n{text}\n")
    assert check_names.check(tmp_path, ["a.py"], {**RULES, "classes": {}}) == ["a.py:2: 'gate'; say API"]


@pytest.mark.parametrize("text", ["# gateway", "delegate = 1", "investigated = 2"])
def test_a_part_of_another_word_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.py").write_text(text)
    assert check_names.check(tmp_path, ["a.py"], {**RULES, "classes": {}}) == []


def test_an_exception_is_for_words_alone(tmp_path: Path) -> None:
    for folder in ("old", "libs"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text("# gate\nclass Row: ...\nclass _Own: ...\n")
    found = check_names.check(tmp_path, ["old/a.py", "libs/a.py"], {**RULES, "classes": {}})
    assert found == ["libs/a.py:1: 'gate'; say API"]


def test_classes_of_one_name_are_counted_and_a_lower_number_is_to_be_written_down() -> None:
    (more,) = check_names.repeated(["Row", "Row", "Settings", "Settings"], RULES["classes"])
    assert more.startswith("class Row: 2")
    (less,) = check_names.repeated(["Settings", "Page"], RULES["classes"])
    assert less.startswith("class Settings: 1")
