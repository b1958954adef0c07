"""The embedded Postgres: whole or not at all, whoever starts it, whatever was left before."""

import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from agentchat.ops.errors import SetupError
from agentchat.ops.free_ports import find_free_port
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.servers.postgres_server import Cluster
from agentchat.ops.stack_report import QuietReport
from agentchat.ops.supervisor import Supervisor
from tests.stack.processes import running_for, until

_KEY = "a-key"


@contextlib.asynccontextmanager
async def _run_server(folder: RunFolder) -> AsyncIterator[str]:
    """The database's URL while the server runs."""
    cluster, port = Cluster(folder, _KEY, fast=True), find_free_port()
    async with Supervisor(folder, [cluster.process(port)], QuietReport()) as supervisor:
        await supervisor.wait_up(30)
        yield cluster.url(port)


def _postmaster(folder: RunFolder) -> int | None:
    """None while there is no file, or one that is not yet whole."""
    file = folder.postgres / "postmaster.pid"
    words = file.read_text().split() if file.exists() else []
    return int(words[0]) if words else None


async def test_server_has_its_settings_and_asks_for_the_password(folder: RunFolder) -> None:
    wanted = {
        "server_version_num": r"18\d{4}",
        "shared_buffers": "64MB",
        "jit": "off",
        "data_checksums": "on",
        "server_encoding": "UTF8",
        "lc_messages": "C",
        "password_encryption": "scram-sha-256",
    }
    half = folder.path / "postgres.new"  # left by an initdb that was cut short
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")
    folder.postgres.mkdir()
    async with _run_server(folder) as url:
        with psycopg.connect(url) as conn:
            for name, pattern in wanted.items():
                (value,) = conn.execute("SELECT current_setting(%s)", [name]).fetchone() or ("",)
                assert re.fullmatch(pattern, value), name
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(make_conninfo(url, password="another"))
    assert not half.exists()


@pytest.mark.slow
async def test_data_survives_a_kill_and_a_stale_lock_file(folder: RunFolder) -> None:
    async with _run_server(folder) as url:
        with psycopg.connect(url) as conn:
            conn.execute("CREATE TABLE kept AS SELECT 1 AS number")
        killed = _postmaster(folder)
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        await until(lambda: _postmaster(folder) not in (None, killed))
        lock_file = (folder.postgres / "postmaster.pid").read_text()
    assert not (folder.postgres / "postmaster.pid").exists()
    someone_else = os.getppid()
    lines = [str(someone_else), *lock_file.splitlines()[1:]]
    (folder.postgres / "postmaster.pid").write_text("\n".join([*lines, ""]))
    async with _run_server(folder) as url:
        with psycopg.connect(url) as conn:
            assert conn.execute("SELECT number FROM kept").fetchone() == (1,)
    assert running_for(folder.path) == {}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"base": ""}, "is not a complete Postgres data folder"),
        ({"PG_VERSION": "18\n"}, "is not a complete Postgres data folder"),
        ({"PG_VERSION": "16\n", "global/pg_control": ""}, "was made by Postgres 16"),
    ],
    ids=["strange", "half", "old"],
)
async def test_a_data_folder_that_cannot_be_used_is_refused_and_left_alone(
    folder: RunFolder, files: dict[str, str], message: str
) -> None:
    for name, content in files.items():
        path = folder.postgres / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    with pytest.raises(SetupError, match=message):
        async with _run_server(folder):
            pytest.fail("it started")
    assert all((folder.postgres / name).read_text() == content for name, content in files.items())
