"""The TypeScript examples for any Node: as they are where it reads them, else without their types."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.node import read_node_version, require_program

Node = Callable[..., list[str]]

_ERASED = (
    r"^export type \w+ = \{$.*?^\};$",  # a type of several lines
    r"^export type \w+ =$.*?;$\n(?=\n)",  # a union
    r" as \w+(?=[;)])",
    r"(?<=\w)\??: (?:string|Response)(?=[,)])",  # parameters
    r"(?<=\)): [\w<>]+(?= \{$)",  # what a function returns
)


def find_runner(examples: Path, scratch: Path) -> Node:
    """Return a function that builds the command of an example. Skip the test without Node 18."""
    node, version = require_program("node"), read_node_version()
    if version < (18,):
        pytest.skip("Node is older than 18")
    if version >= (22, 6):
        flags = [] if version >= (22, 18) else ["--experimental-strip-types", "--no-warnings"]
        return lambda name, *arguments: [node, *flags, str(examples / name), *arguments]
    for path in examples.glob("*.ts"):
        text = path.read_text()
        for pattern in _ERASED:
            text = re.sub(pattern, "", text, flags=re.MULTILINE | re.DOTALL)
        (scratch / f"{path.stem}.mjs").write_text(text.replace('.ts"', '.mjs"'))
    return lambda name, *arguments: [node, str(scratch / name.replace(".ts", ".mjs")), *arguments]
