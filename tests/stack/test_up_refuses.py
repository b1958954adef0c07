"""What stops `agentchat up` before anything is started: one clear line, exit code 2, nothing left behind."""

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentchat.ops.errors import SetupError
from agentchat.ops.free_ports import LOOPBACK
from agentchat.ops.main import app
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.settings import ProcessCounts
from agentchat.ops.up import run_stack
from agentchat.runtime.migrations import apply, open_migration
from tests.stack.processes import running_for


def _agentchat(*arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AGENTCHAT_")}
    return subprocess.run(
        [sys.executable, "-m", "agentchat.ops.main", *arguments],
        env=inherited | {"AGENTCHAT_PORT": "0"} | environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def _only_line(refused: "subprocess.CompletedProcess[str]") -> str:
    assert refused.returncode == 2, refused
    assert refused.stdout == ""
    (line,) = refused.stderr.splitlines()
    return line


def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = _agentchat("up", AGENTCHAT_RUN_DIR=str(tmp_path), AGENTCHAT_PORT=port)
    assert _only_line(refused) == (
        f"agentchat: port {port} on 127.0.0.1 is in use; choose another by AGENTCHAT_PORT (0: any)"
    )
    assert running_for(tmp_path) == {}


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("AGENTCHAT_RUN_DIR", "/dev/null/x", "run folder /dev/null/x cannot be written: Not a directory"),
        ("AGENTCHAT_PORT", "many", "AGENTCHAT_PORT"),
        ("AGENTCHAT_MCP_PORT", "-1", "AGENTCHAT_MCP_PORT"),
        ("AGENTCHAT_SECRET_KEY", "short", "AGENTCHAT_SECRET_KEY must be"),
        ("AGENTCHAT_SECRET_KEY_PREVIOUS", "short", "AGENTCHAT_SECRET_KEY_PREVIOUS must be"),
    ],
)
def test_a_wrong_setting_starts_nothing(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, reason: str
) -> None:
    monkeypatch.setenv("AGENTCHAT_RUN_DIR", str(folder.path))
    monkeypatch.setenv(variable, value)
    with pytest.raises(SetupError, match=reason) as refused:
        run_stack(ProcessCounts())
    assert "short" not in str(refused.value)


def test_a_folder_in_use(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTCHAT_RUN_DIR", str(folder.path))
    with folder.lock(), pytest.raises(SetupError, match=f"a stack already runs in {folder.path}"):
        run_stack(ProcessCounts())


def test_commands_say_in_one_line_that_nothing_runs(folder: RunFolder) -> None:
    printed = _agentchat("status", AGENTCHAT_RUN_DIR=str(folder.path))
    assert printed.returncode == 1
    assert printed.stdout == ""
    assert printed.stderr == f"agentchat: nothing runs in {folder.path}\n"


def _migrate_in_vain(database_url: str) -> str:
    """Return what `agentchat migrate` prints, without a process."""
    result = CliRunner().invoke(app, ["migrate"], env={"AGENTCHAT_DATABASE_URL": database_url})
    assert result.exit_code == 1
    return result.output


async def test_older_database_is_refused(database_url: str) -> None:
    async with open_migration(database_url) as conn:
        await conn.execute("DROP SCHEMA IF EXISTS public CASCADE")
        await conn.execute("CREATE SCHEMA public")
        await apply(conn, "conversations", ("CREATE TABLE conversation_events (hash bytea)",))
    assert await asyncio.to_thread(_migrate_in_vain, database_url) == (
        "the database cannot be prepared: conversations step 1 is not the one that was applied:"
        " databases from before release 0.10.0 cannot be upgraded; start with an empty database\n"
    )


def test_migrate_says_what_is_wrong(database_url: str) -> None:
    missing = database_url.rpartition("/")[0] + "/missing"
    assert 'database "missing" does not exist' in _migrate_in_vain(missing)
