"""The servers as root, as an ordinary user, as another user, and without their starter."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from agentchat.ops.free_ports import find_free_port
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.servers.postgres_server import Cluster
from agentchat.ops.stack_report import QuietReport
from agentchat.ops.supervisor import Supervisor
from tests.stack.processes import running_for, wait_none_running

pytestmark = pytest.mark.slow

_TREE = Path(__file__).parents[2]
_NOBODY = 65534
_AS_NOBODY = ("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups")
_only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def nobodys() -> Iterator[Path]:
    """A folder of user nobody, where nobody can reach it."""
    folder = Path(tempfile.mkdtemp(prefix="agentchat-nobody-", dir="/tmp"))
    os.chown(folder, _NOBODY, _NOBODY)
    yield folder
    shutil.rmtree(folder)


@_only_root
async def test_as_root_postgres_runs_as_an_unprivileged_user(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.create()
    for _ in range(2):
        cluster, port = Cluster(folder, "a-key", fast=True), find_free_port()
        async with Supervisor(folder, [cluster.process(port)], QuietReport()) as supervisor:
            await supervisor.wait_up(30)
            psycopg.connect(cluster.url(port)).close()
            assert 0 not in _user_ids(folder)
        assert running_for(tmp_path) == {}


@_only_root
async def test_as_root_postgres_runs_in_a_folder_that_is_closed_to_others(
    tmp_path: Path,
) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    folder = RunFolder(tmp_path / "closed" / "run")
    folder.create()
    cluster, port = Cluster(folder, "a-key", fast=True), find_free_port()
    async with Supervisor(folder, [cluster.process(port)], QuietReport()) as supervisor:
        await supervisor.wait_up(30)
        psycopg.connect(cluster.url(port)).close()


def _user_ids(folder: RunFolder) -> list[int]:
    postmaster = (folder.postgres / "postmaster.pid").read_text().split()[0]
    return [
        int(each) for each in Path(f"/proc/{postmaster}/status").read_text().partition("Uid:")[2].split()[:4]
    ]


@_only_root
def test_an_ordinary_user_starts_every_server(nobodys: Path) -> None:
    started = _start(nobodys, (*_AS_NOBODY, _python_of_nobody()))
    assert _read_line(started) == f"ready {_NOBODY}"
    _end(started)
    assert running_for(nobodys) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the next start ends what is left")
async def test_servers_end_with_a_starter_that_is_killed(tmp_path: Path) -> None:
    started = _start(tmp_path, (sys.executable,))
    assert _read_line(started) == f"ready {os.geteuid()}"
    assert len(running_for(tmp_path)) > 3
    started.kill()
    _end(started)
    await wait_none_running(tmp_path)
    assert not (tmp_path / "postgres" / "postmaster.pid").exists()


def _start(folder: Path, python: tuple[str, ...]) -> "subprocess.Popen[str]":
    sources = ":".join(entry for entry in sys.path if entry.endswith(("/src", "/site-packages")))
    return subprocess.Popen(
        [*python, "-m", "tests.stack.start_servers", str(folder)],
        cwd=_TREE,
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": sources,
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _read_line(started: "subprocess.Popen[str]") -> str:
    assert started.stdout is not None
    return started.stdout.readline().strip()


def _end(started: "subprocess.Popen[str]") -> None:
    """Its stdin ends, and with it the servers."""
    started.communicate(timeout=20)


def _python_of_nobody() -> str:
    """An interpreter of this version that user nobody may run: the one of the tests may be root's alone."""
    script = "import os, sys; os.execv(sys.executable, [sys.executable, '-S', '-c', 'pass'])"
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        tried = subprocess.run([*_AS_NOBODY, python, "-S", "-c", script], capture_output=True, check=False)
        if tried.returncode == 0:
            return python
    pytest.skip("user nobody may run no Python of this version here")
