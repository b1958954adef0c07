"""How large the tree is, and how easily a file is found in it: `make tree`.

Lines of Python, short files, and file names that occur more than once;
`__init__` and `__main__` are left out.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

SHORT = 60
SOURCE = ("services", "libs", "bench")


def _files(*folders: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *folders], check=True, capture_output=True, text=True).stdout
    return [path for path in map(Path, listed.splitlines()) if path.suffix == ".py" and path.exists()]


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def main() -> None:
    source, tests = _files(*SOURCE), _files("tests")
    named = [path for path in source if not path.stem.startswith("__")]
    repeated = sorted(name for name, count in Counter(path.name for path in named).items() if count > 1)
    short = [path for path in named if _lines(path) < SHORT]
    rows = [
        ("source lines", sum(map(_lines, source))),
        ("lines of tests", sum(map(_lines, tests))),
        ("source files", len(source)),
        (f"source files under {SHORT} lines", len(short)),
        ("file names that occur more than once", len(repeated)),
    ]
    for label, number in rows:
        sys.stdout.write(f"{label:38} {number:>7,}\n")
    sys.stdout.write("\n" + "\n".join(repeated) + "\n")


if __name__ == "__main__":
    main()
