"""What the run folder keeps: secrets, the environment of the demo, the record of processes."""

import socket
import stat
import subprocess

import msgspec
import pytest

from agentchat.ops import demo_env, folder_secrets
from agentchat.ops.demo_env import Environment
from agentchat.ops.errors import NotRunningError, SetupError
from agentchat.ops.free_ports import LOOPBACK, find_free_port, is_free
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.stack_report import format_log_line

_ENVIRONMENT = Environment(
    base_url="http://127.0.0.1:8080",
    gateway_urls=("http://127.0.0.1:8080", "http://127.0.0.1:18080"),
    mcp_base_url="http://127.0.0.1:8090",
    console_url="http://127.0.0.1:8085",
    nats_url="nats://127.0.0.1:4222",
    retrieval_agent_id="retrieval",
    openai_agent_id="openai",
    database_url="postgresql://o:p%20w@127.0.0.1:5432/db?sslmode=require&application_name=it's",
    analyst_database_url="postgresql://a:b@127.0.0.1:5432/db",
    redis_url="redis://127.0.0.1:6379/0",
    api_key="sk-ac-a",
    agent_id="a",
    starter_api_key="sk-ac-b",
    starter_agent_id="b",
    load_api_key="sk-ac-c",
    load_agent_id="c",
    admin_token="token",
)


def test_demo_env_can_be_sourced_by_a_shell(folder: RunFolder) -> None:
    demo_env.write(folder, _ENVIRONMENT)
    script = f". {folder.demo_env}; env"
    out = subprocess.run(["sh", "-c", script], env={}, capture_output=True, text=True, check=True).stdout
    sourced = dict(line.split("=", 1) for line in out.splitlines())
    assert sourced["GATEWAY_URLS"] == ",".join(_ENVIRONMENT.gateway_urls)
    assert sourced["DATABASE_URL"] == _ENVIRONMENT.database_url
    keys = [line.removeprefix("export ").split("=")[0] for line in folder.demo_env.read_text().splitlines()]
    assert keys == [
        *("BASE_URL", "GATEWAY_URLS", "MCP_BASE_URL", "CONSOLE_URL", "NATS_URL", "DATABASE_URL"),
        *("ANALYST_DATABASE_URL", "REDIS_URL"),
        *(
            "API_KEY",
            "AGENT_ID",
            "RETRIEVAL_AGENT_ID",
            "OPENAI_AGENT_ID",
            "STARTER_API_KEY",
            "STARTER_AGENT_ID",
        ),
        *("LOAD_API_KEY", "LOAD_AGENT_ID", "ADMIN_TOKEN"),
    ]
    assert stat.S_IMODE(folder.demo_env.stat().st_mode) == 0o600


def test_a_running_stack_is_found_by_its_folder(folder: RunFolder) -> None:
    with pytest.raises(NotRunningError, match="nothing runs in"):
        demo_env.load(folder)
    with folder.lock():
        with pytest.raises(NotRunningError, match="still starting"):
            demo_env.load(folder)
        demo_env.write(folder, _ENVIRONMENT)
        assert demo_env.load(folder) == _ENVIRONMENT
    with pytest.raises(NotRunningError, match="nothing runs in"):
        demo_env.load(folder)


def test_secrets_are_made_once_and_private(folder: RunFolder) -> None:
    first = folder_secrets.load_or_create_secrets(folder.secrets)
    assert folder_secrets.load_or_create_secrets(folder.secrets) == first
    assert stat.S_IMODE(folder.secrets.stat().st_mode) == 0o600
    assert len({*msgspec.structs.astuple(first)}) == len(first.__struct_fields__)


def test_a_secret_that_an_older_version_did_not_have_is_added(folder: RunFolder) -> None:
    folder.secrets.write_text('{"admin_token": "kept"}')
    kept = folder_secrets.load_or_create_secrets(folder.secrets)
    assert kept.admin_token == "kept"
    assert folder_secrets.load_or_create_secrets(folder.secrets) == kept


def test_damaged_secrets_are_refused(folder: RunFolder) -> None:
    folder.secrets.write_text('{"admin_token": ')
    with pytest.raises(SetupError, match=r"secrets\.json cannot be read"):
        folder_secrets.load_or_create_secrets(folder.secrets)


def test_a_port_in_use_is_not_chosen() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        assert not is_free(port)
        assert find_free_port(preferred=port) != port
    assert find_free_port(preferred=port) == port


def test_a_process_is_given_no_port_twice() -> None:
    ports = [find_free_port() for _ in range(200)]
    assert len(set(ports)) == len(ports)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("plain words\n", "plain words"),
        ('{"event":"ready","port":1,"level":"info","timestamp":"t","service":"s"}', "ready port=1"),
        ('{"event":"failed","exception":"Traceback:\\n  x\\nOSError: no luck"}', "failed: OSError: no luck"),
        ("[1]", "[1]"),
    ],
)
def test_log_lines_are_shown_readable(line: str, shown: str) -> None:
    assert format_log_line(line) == shown
