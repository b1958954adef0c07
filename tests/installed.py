"""Clients that we did not choose, installed next to the tests once, from where this machine's npm and uv get
their packages.
"""

import asyncio
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.node import require_program

_CACHE = Path(__file__).parents[1] / ".cache"


async def run(folder: Path, *command: str, **environ: str) -> str:
    """What a command prints. Raises AssertionError with what it says, where it fails."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**os.environ, "NO_PROXY": "127.0.0.1,localhost", **environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(240):
        out, err = await process.communicate()
    assert process.returncode == 0, (out + err).decode()[-2000:]
    return out.decode()


async def run_json(folder: Path, *command: str, **environ: str) -> Any:
    """The JSON that a command prints in its last line. Raises AssertionError."""
    return json.loads((await run(folder, *command, **environ)).strip().rpartition("\n")[2])


async def node_packages(source: Path) -> Path:
    """Where a folder's scripts can be run with its packages. Skips the test where they cannot be had."""
    folder = _CACHE / source.name
    require_program("node")
    npm = require_program("npm")
    shutil.copytree(source, folder, dirs_exist_ok=True)
    wanted = json.loads((source / "package.json").read_text())["dependencies"]
    if not all(_has(folder / "node_modules" / name, version) for name, version in wanted.items()):
        await _install_or_skip(folder, npm, "install", "--no-audit", "--no-fund")
    return folder


def _has(package: Path, wanted: str) -> bool:
    """Whether it is installed, and in the version that is wanted, where that is one and no range."""
    if not (package / "package.json").exists():
        return False
    exact = re.search(r"(?:^|@)(\d+\.\d+\.\d+)$", wanted)
    return exact is None or json.loads((package / "package.json").read_text())["version"] == exact[1]


async def python_packages(name: str, module: str, *wanted: str) -> str:
    """A Python of its own that can import `module`. Skips the test where the packages cannot be had."""
    folder = _CACHE / name
    python, uv = str(folder / "venv" / "bin" / "python"), str(Path(sys.executable).with_name("uv"))
    folder.mkdir(parents=True, exist_ok=True)
    if shutil.which(python) is None:
        await _install_or_skip(folder, uv, "venv", "-q", "--clear", "--python", sys.executable, "venv")
    try:
        await run(folder, python, "-c", f"import {module}")
    except AssertionError:
        await _install_or_skip(folder, uv, "pip", "install", "-q", "--python", python, *wanted)
    return python


async def python_locked(source: Path) -> str:
    """A Python of its own with what a folder's requirements.lock pins, by its hashes. Never skips a test."""
    folder = _CACHE / source.name
    lock = source / "requirements.lock"
    python, uv = str(folder / "venv" / "bin" / "python"), str(Path(sys.executable).with_name("uv"))
    kept = folder / "installed.lock"
    folder.mkdir(parents=True, exist_ok=True)
    if not kept.exists() or kept.read_bytes() != lock.read_bytes():
        await run(folder, uv, "venv", "-q", "--clear", "--python", sys.executable, "venv")
        await run(folder, uv, "pip", "sync", "-q", "--require-hashes", "--python", python, str(lock))
        shutil.copy(lock, kept)
    return python


async def _install_or_skip(folder: Path, *command: str) -> None:
    try:
        await run(folder, *command)
    except (AssertionError, TimeoutError) as error:
        pytest.skip(f"it cannot be installed here: {error}")
