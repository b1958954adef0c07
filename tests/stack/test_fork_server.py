"""A fork is as its own process would be: its log, environment, session and end."""

import asyncio
import os
import pkgutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from agentchat.ops.fork_server import PRELOADED, ForkServer
from agentchat.ops.process import Process
from tests.stack.processes import running_for, until

_MODULE = "tests.stack.said"


@pytest.fixture
async def fork_server() -> AsyncIterator[ForkServer]:
    async with ForkServer(["asyncio"]) as started:
        yield started


def describe(folder: Path, *arguments: str) -> Process:
    return Process(
        name="said",
        argv=(sys.executable, "-m", _MODULE, *arguments, str(folder)),
        env={"SAID": "by the environment"},
        log=folder / "said.log",
        probe=None,
        is_module=True,
        stop_rank=0,
    )


@pytest.mark.parametrize("name", PRELOADED)
def test_what_is_preloaded_exists(name: str) -> None:
    module, _, function = name.partition(":")
    assert find_spec(module)
    assert not function or callable(pkgutil.resolve_name(name))


def test_the_default_providers_sdk_is_preloaded() -> None:
    names = [f"pkgutil.resolve_name({name!r})" for name in PRELOADED if "orchestrator" in name]
    code = "\n".join(["import pkgutil, sys", *names, "assert 'anthropic' in sys.modules"])
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


async def test_a_fork_has_its_own_environment_log_and_exit_code(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    child = await fork_server.spawn(describe(tmp_path, "7"))
    assert await child.wait() == 7
    log = (tmp_path / "said.log").read_text()
    assert log.endswith(f"/tests/stack/said.py', '7', '{tmp_path}'] {{'SAID': 'by the environment'}}\n")


async def test_a_fork_leads_a_session_and_is_killed(fork_server: ForkServer, tmp_path: Path) -> None:
    child = await fork_server.spawn(describe(tmp_path, "wait"))
    await until(lambda: (tmp_path / "said.log").exists() and "wait" in (tmp_path / "said.log").read_text())
    assert os.getsid(child.pid) == child.pid
    assert _MODULE in " ".join(psutil.Process(child.pid).cmdline())
    child.send_signal(signal.SIGKILL)
    assert await child.wait() == -signal.SIGKILL
    child.send_signal(signal.SIGTERM)  # to nobody


async def test_forks_end_with_their_server_and_another_one_starts(tmp_path: Path) -> None:
    async with ForkServer(["asyncio"]) as fork_server:
        child = await fork_server.spawn(describe(tmp_path, "wait"))
        server = psutil.Process(child.pid).parent()
        assert server is not None
        server.kill()
        assert await child.wait() == -signal.SIGTERM
        await until(lambda: not running_for(tmp_path))
        assert await (await fork_server.spawn(describe(tmp_path, "3"))).wait() == 3


async def test_a_fork_may_end_before_its_start_is_read(fork_server: ForkServer, tmp_path: Path) -> None:
    waiting = await fork_server.spawn(describe(tmp_path, "wait"))
    server = psutil.Process(waiting.pid).parent()
    assert server is not None
    (tmp_path / "said.log").touch()
    starting = asyncio.create_task(fork_server.spawn(describe(tmp_path, "4")))
    await asyncio.sleep(0)
    for _ in range(1000):
        if "'4'" in (tmp_path / "said.log").read_text() and len(server.children()) == 1:
            break
        time.sleep(0.01)  # noqa: ASYNC251 - both reports are to be there at once
    assert await (await starting).wait() == 4


async def test_a_module_that_cannot_be_imported_stops_only_its_service(tmp_path: Path) -> None:
    async with ForkServer(["tests.stack.no_such_module", "asyncio"]) as fork_server:
        assert await (await fork_server.spawn(describe(tmp_path, "3"))).wait() == 3


async def test_an_abandoned_start_leaves_no_fork(tmp_path: Path) -> None:
    async with ForkServer(["agentchat.gateway.service"]) as fork_server:
        starting = asyncio.create_task(fork_server.spawn(describe(tmp_path, "wait")))
        await asyncio.sleep(0)
        starting.cancel()
        assert await (await fork_server.spawn(describe(tmp_path, "3"))).wait() == 3
        await until(lambda: not running_for(tmp_path))


async def test_the_server_knows_authorities_and_no_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/authorities.pem")
    monkeypatch.setenv("AGENTCHAT_SECRET_KEY", "secret")
    async with ForkServer(["asyncio"]) as fork_server:
        child = await fork_server.spawn(describe(tmp_path, "wait"))
        server = psutil.Process(child.pid).parent()
        assert server is not None
        environment = server.environ()
    assert environment["SSL_CERT_FILE"] == "/authorities.pem"
    assert "AGENTCHAT_SECRET_KEY" not in environment
