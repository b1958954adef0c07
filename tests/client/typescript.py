"""The TypeScript examples for any Node: as they are where it reads them, else without their types."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

Node = Callable[..., list[str]]

_ERASED = (
    r"^export type \w+ = \{$.*?^\};$",  # a type of several lines
    r"^export type \w+ =$.*?;$\n(?=\n)",  # a union
    r" as \w+(?=[;)])",
    r"(?<=\w)\??: (?:string|Response)(?=[,)])",  # parameters
    r"(?<=\)): [\w<>]+(?= \{$)",  # what a function returns
)


def read_version(node: str) -> tuple[int, ...]:
    printed = subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=20)
    return tuple(int(part) for part in printed.stdout.strip().removeprefix("v").split("."))


def find_runner(examples: Path, scratch: Path) -> Node | None:
    """Return a function that builds the command of an example; None without Node 18."""
    node = shutil.which("node")
    found = read_version(node) if node else (0,)
    if node is None or found < (18,):
        return None
    if found >= (22, 6):
        flags = [] if found >= (22, 18) else ["--experimental-strip-types", "--no-warnings"]
        return lambda name, *arguments: [node, *flags, str(examples / name), *arguments]
    for path in examples.glob("*.ts"):
        text = path.read_text()
        for pattern in _ERASED:
            text = re.sub(pattern, "", text, flags=re.MULTILINE | re.DOTALL)
        (scratch / f"{path.stem}.mjs").write_text(text.replace('.ts"', '.mjs"'))
    return lambda name, *arguments: [node, str(scratch / name.replace(".ts", ".mjs")), *arguments]
