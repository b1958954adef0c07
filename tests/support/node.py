"""Node.js as this machine has it. Tests that need it are skipped where it is missing."""

import shutil
import subprocess

import pytest


def require_program(name: str) -> str:
    """Return the path of `node` or `npm`. Skip the test if this machine has none."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"there is no {name}")
    return path


def read_node_version() -> tuple[int, ...]:
    """Return the version of Node.js. Skip the test if this machine has none."""
    command = [require_program("node"), "--version"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    return tuple(int(part) for part in printed.stdout.strip().removeprefix("v").split("."))
