"""`python deploy/check_names.py`: refuses words and repeated class names that `deploy/names.toml` lists.

A word counts in any case, in names (also as a part of one, such as `_row_of` for "row"), comments, texts and
pages. A class counts where it is public and at the top of a module of `services` or `libs`. Exit code 1 and a
line for each finding; 0 where there is none.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RULES = Path(__file__).with_name("names.toml")
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SUFFIXES = {".py", ".md", ".toml", ".sql", ".sh", ".yaml", ".diff"}


def refused_words(text: str, words: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """The line, from 1, and the word as it is refused."""
    for number, line in enumerate(text.splitlines(), start=1):
        for part in _PARTS.findall(line):
            if part.lower() in words:
                yield number, part.lower()


def public_classes(text: str) -> list[str]:
    """Those at the top of a module."""
    found = (each.name for each in ast.parse(text).body if isinstance(each, ast.ClassDef))
    return [name for name in found if not name.startswith("_")]


def repeated(names: Iterable[str], allowed: Mapping[str, int]) -> list[str]:
    """What is wrong with the numbers of classes of one name."""
    counted = {name: number for name, number in Counter(names).items() if number > 1}
    wrong = {name for name in counted.keys() | allowed.keys() if counted.get(name) != allowed.get(name)}
    return [
        f"class {name}: {counted.get(name, 1)} of that name, {allowed.get(name, 1)} in deploy/names.toml"
        for name in sorted(wrong)
    ]


def check(root: Path, files: Iterable[str], rules: Mapping[str, Any]) -> list[str]:
    """Findings, a line each, in these files of a tree."""
    findings, classes = [], []
    for name in files:
        path = root / name
        if path.suffix not in _SUFFIXES or not path.is_file() or path.name == RULES.name:
            continue
        text = path.read_text()
        if not name.startswith(tuple(rules["exceptions"]["paths"])):
            for number, word in refused_words(text, rules["words"]):
                findings.append(f"{name}:{number}: {word!r}; say {rules['words'][word]}")
        if path.suffix == ".py" and name.startswith(("services/", "libs/")):
            classes += public_classes(text)
    return findings + repeated(classes, rules["classes"])


def main() -> int:
    """Check the files that git knows."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    findings = check(ROOT, listed.stdout.splitlines(), tomllib.loads(RULES.read_text()))
    sys.stdout.write("".join(f"{each}\n" for each in findings))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
