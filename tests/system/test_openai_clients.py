"""Clients that we did not choose at the OpenAI door: its SDK for Node, and LangChain.

Each is installed beside the tests once, from where this machine's npm and uv get their packages.
"""

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.system.calling import Caller

pytestmark = pytest.mark.requirement("OPENAI-DOOR")

QUESTION = "Where is my order ORD-1001?"
_HERE = Path(__file__).parent / "openai_clients"
_KEPT = Path(__file__).parents[2] / ".cache" / "openai_clients"
_PYTHON = _KEPT / "venv" / "bin" / "python"


async def _run(*command: str, **environ: str) -> str:
    """What a command prints. Raises AssertionError with what it says, where it fails."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=_KEPT,
        env={**os.environ, **environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(240):
        out, err = await process.communicate()
    assert process.returncode == 0, (out + err).decode()[-2000:]
    return out.decode()


async def _install_node() -> list[str]:
    node, npm = shutil.which("node"), shutil.which("npm")
    assert node is not None, "there is no node"
    assert npm is not None, "there is no npm"
    for name in ("package.json", "client_node.mjs"):
        shutil.copy(_HERE / name, _KEPT)
    if not (_KEPT / "node_modules" / "openai").exists():
        await _run(npm, "install", "--no-audit", "--no-fund")
    return [node, "client_node.mjs"]


async def _install_langchain() -> list[str]:
    if not _PYTHON.exists():
        await _run(sys.executable, "-m", "venv", "--clear", str(_KEPT / "venv"))
    try:
        await _run(str(_PYTHON), "-c", "import langchain_openai")
    except AssertionError:
        await _run(str(_PYTHON), "-m", "pip", "install", "-q", "langchain-openai>=1.7,<2")
    return [str(_PYTHON), str(_HERE / "client_langchain.py")]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("install", [_install_node, _install_langchain])
async def test_a_client_streams_goes_on_and_is_refused(caller: Caller, install: Any) -> None:
    _KEPT.mkdir(parents=True, exist_ok=True)
    try:
        command = await install()
    except (AssertionError, TimeoutError) as error:
        pytest.skip(f"it cannot be installed here: {error}")
    told = json.loads(
        await _run(
            *command,
            OPENAI_BASE_URL=f"{caller.base_url}/openai/v1",
            OPENAI_API_KEY=caller.headers["X-Api-Key"],
            AGENT=caller.headers["X-Agent-Id"],
            QUESTION=QUESTION,
            NO_PROXY="127.0.0.1,localhost",
        )
    )
    saved = [message["content"] for message in await caller.messages(told["conversation"])]
    assert saved == [QUESTION, told["text"], "Thanks!", told["reply"]], "both turns in one conversation"
    assert told["models"]
    assert told["finish"] == "stop"
    assert told["calls"] == 0
    assert told["refused"] == {"status": 400, "param": "n", "type": "invalid_request_error"}
