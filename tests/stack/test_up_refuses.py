"""What stops `agentchat up` before anything is started: one clear line, exit code 2, nothing left behind."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from agentchat.ops.folder import RunFolder
from agentchat.ops.ports import LOOPBACK
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


def test_a_taken_port(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = _agentchat("up", AGENTCHAT_RUN_DIR=str(tmp_path), AGENTCHAT_PORT=port)
        assert _only_line(refused) == (
            f"agentchat: port {port} on 127.0.0.1 is in use; choose another by AGENTCHAT_PORT (0: any)"
        )
        refused = _agentchat("up", AGENTCHAT_RUN_DIR=str(tmp_path), AGENTCHAT_MCP_PORT=port)
        assert "AGENTCHAT_MCP_PORT" in _only_line(refused)
    assert running_for(tmp_path) == {}


def test_a_folder_that_cannot_be_written() -> None:
    refused = _agentchat("up", AGENTCHAT_RUN_DIR="/dev/null/x")
    assert "the run folder /dev/null/x cannot be written: Not a directory" in _only_line(refused)


def test_a_folder_in_use(folder: RunFolder) -> None:
    with folder.lock():
        refused = _agentchat("up", AGENTCHAT_RUN_DIR=str(folder.path))
    assert f"a stack already runs in {folder.path}" in _only_line(refused)


@pytest.mark.parametrize(
    ("variable", "value"),
    [("AGENTCHAT_PORT", "many"), ("AGENTCHAT_PORT", "70000"), ("AGENTCHAT_MCP_PORT", "-1")],
)
def test_a_wrong_setting(tmp_path: Path, variable: str, value: str) -> None:
    refused = _agentchat("up", **{"AGENTCHAT_RUN_DIR": str(tmp_path), variable: value})
    assert variable in _only_line(refused)


@pytest.mark.parametrize("variable", ["AGENTCHAT_SECRET_KEY", "AGENTCHAT_SECRET_KEY_PREVIOUS"])
def test_a_secret_key_that_is_none(tmp_path: Path, variable: str) -> None:
    refused = _agentchat("up", **{"AGENTCHAT_RUN_DIR": str(tmp_path), variable: "short"})
    assert f"{variable} must be" in _only_line(refused)
    assert "short" not in refused.stderr


def test_commands_say_in_one_line_that_nothing_runs(folder: RunFolder) -> None:
    printed = _agentchat("status", AGENTCHAT_RUN_DIR=str(folder.path))
    assert printed.returncode == 1
    assert printed.stdout == ""
    assert printed.stderr == f"agentchat: nothing runs in {folder.path}\n"


def test_migrate_names_the_variable_that_it_needs() -> None:
    refused = _agentchat("migrate", AGENTCHAT_DATABASE_URL="")
    assert _only_line(refused) == "AGENTCHAT_DATABASE_URL is not set"


def test_migrate_updates_a_database_or_says_what_is_wrong(database_url: str) -> None:
    for _ in range(2):
        done = _agentchat("migrate", AGENTCHAT_DATABASE_URL=database_url)
        assert done.returncode == 0
        assert done.stdout == ""
        assert done.stderr == ""
    missing = database_url.rpartition("/")[0] + "/missing"
    failed = _agentchat("migrate", AGENTCHAT_DATABASE_URL=missing)
    assert failed.returncode == 1
    assert 'database "missing" does not exist' in failed.stderr
