"""The wheels of `make dist`: the whole system runs from them without a checkout, and the client alone."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests import installed

pytestmark = pytest.mark.slow

TREE = Path(__file__).parents[2]
_UP_SECONDS = 90


_CHAT = """
from agentchat.client import AgentChat
with AgentChat() as client:
    print(client.chat("Where is order ORD-1006?").text)
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(["make", "-s", "dist", f"DIST={folder}"], cwd=TREE, check=True)
    return folder


def environment(folder: Path, wheels: Path, name: str) -> Path:
    """An empty environment with one of our distributions and what it needs, at the locked versions."""
    uv, python = Path(sys.executable).with_name("uv"), folder / "bin" / "python"
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, folder], check=True)
    options = ["--python", str(python), "--find-links", str(wheels), "-c", str(TREE / "requirements.lock")]
    subprocess.run([uv, "pip", "install", "-q", *options, name], check=True)
    return python


def distributions(python: Path) -> set[str]:
    uv = Path(sys.executable).with_name("uv")
    listed = subprocess.run(
        [uv, "pip", "freeze", "--python", python], check=True, capture_output=True, text=True
    ).stdout
    return {re.split(r"[ =@]", line)[0] for line in listed.splitlines()}


def demo_of(folder: Path) -> dict[str, str]:
    lines = (folder / ".run" / "demo.env").read_text().splitlines()
    return dict(line.removeprefix("export ").split("=", 1) for line in lines if "=" in line)


@contextlib.asynccontextmanager
async def up(python: Path, folder: Path) -> AsyncIterator[dict[str, str]]:
    """`agentchat up` in a folder that holds nothing; the variables of its demo.env."""
    process = await asyncio.create_subprocess_exec(
        str(python.with_name("agentchat")),
        "up",
        cwd=folder,
        env=os.environ | {"AGENTCHAT_PORT": "0", "AGENTCHAT_MCP_PORT": "0", "NO_PROXY": "127.0.0.1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    printed: list[str] = []
    try:
        async with asyncio.timeout(_UP_SECONDS):
            async for line in process.stdout:
                printed.append(line.decode())
                if "Ctrl-C stops everything" in printed[-1]:
                    break
        assert "Agent Chat Service is up" in "".join(printed), printed
        yield demo_of(folder)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        await process.communicate()
    assert process.returncode == 0


async def test_system_and_client_run_from_wheels(wheels: Path, tmp_path: Path) -> None:
    client = environment(tmp_path / "client", wheels, "agentchat-client")
    needed = {"anyio", "certifi", "h11", "httpcore", "httpx", "idna", "msgspec", "typing-extensions"}
    assert distributions(client) - needed == {"agentchat-client"}
    python = environment(tmp_path / "system", wheels, "agentchat")
    assert {"agentchat", "agentchat-gateway", "agentchat-projector"} <= distributions(python)
    folder = tmp_path / "run"
    folder.mkdir()
    async with up(python, folder) as demo:
        access = {f"AGENTCHAT_{name}": demo[name] for name in ("BASE_URL", "API_KEY", "AGENT_ID")}
        replied = await installed.run(tmp_path, str(client), "-c", _CHAT, **access)
    assert "ORD-1006" in replied
