"""A stack that runs: its processes, what leads to them, and what restarts them."""

import asyncio
import os
import stat
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import psycopg
import redis.asyncio

from agentchat.ops.folder_secrets import Secrets
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.settings import ProcessCounts, UpSettings
from agentchat.ops.stack import describe_stack
from tests.harness import RunningStack
from tests.stack.processes import SERVERS, chat, running_for

_LOGINS = {
    "AGENTCHAT_DATABASE_URL": "database",
    "AGENTCHAT_NATS_URL": "nats",
    "AGENTCHAT_NATS_PROVISIONER_URL": "streams",
    "AGENTCHAT_REDIS_URL": "redis",
}


async def test_every_process_runs_under_its_name_and_is_ready(stack: RunningStack) -> None:
    names = stack.names()
    services = ["gateway", "orchestrator", "tool-runner"]
    twice = {f"{service}-{number}" for service in services for number in (1, 2)}
    assert set(names) == SERVERS | twice | {
        "projector-1",
        "console-1",
        "mcp-demo",
        "model-demo",
    }
    await stack.wait_all_ready()


async def test_demo_env_leads_to_every_server_and_account(stack: RunningStack) -> None:
    found = stack.environment
    assert stat.S_IMODE(stack.folder.demo_env.stat().st_mode) == 0o600
    assert len(set(found.gateway_urls)) == 2
    assert found.base_url == found.gateway_urls[0]
    with psycopg.connect(found.database_url) as conn:
        assert conn.execute("SELECT count(*) > 0 FROM accounts").fetchone() == (True,)
    async with redis.asyncio.from_url(found.redis_url) as client:
        assert await client.ping()
    async with httpx.AsyncClient() as http:
        assert (await http.get(f"{found.mcp_base_url}/api/mcp")).json()["tools_count"] == 21
    keys = [found.api_key, found.starter_api_key, found.load_api_key]
    agents = [found.agent_id, found.starter_agent_id, found.load_agent_id]
    for key, agent in zip(keys, agents, strict=True):
        assert (await chat(stack, key, agent)).status_code == 200


async def test_the_printed_curl_is_answered_with_tool_calls(stack: RunningStack) -> None:
    banner = stack.log.read_text().partition("Agent Chat Service is up")[2]
    command = banner[banner.index("curl ") : banner.index("\n\nAsk the same")]
    printed = await asyncio.to_thread(
        subprocess.run, ["sh", "-c", command], capture_output=True, text=True, check=True, timeout=30
    )
    assert '"tool_calls":[' in printed.stdout


async def test_command_lines_name_the_process_and_no_secret(stack: RunningStack) -> None:
    await stack.wait_all_ready()
    commands, found = running_for(stack.folder.path), stack.environment
    for name in set(stack.names()) - SERVERS:
        command = commands[stack.pid(name)]
        assert f"--name {name} --run-dir {stack.folder.path}" in command
        assert not any(secret in command for secret in (found.api_key, found.admin_token))
    # Each is in a session of its own: a terminal's Ctrl-C reaches `up` alone.
    assert all(os.getsid(stack.pid(name)) == stack.pid(name) for name in stack.names())


async def test_no_process_has_a_secret_where_its_start_is_shown(stack: RunningStack) -> None:
    await stack.wait_all_ready()
    for name in set(stack.names()) - SERVERS:
        environ = psutil.Process(stack.pid(name)).environ()
        assert not [each for each in environ if each.startswith("AGENTCHAT_") or each.endswith("_API_KEY")]


def test_each_process_gets_its_own_logins_and_no_others(tmp_path: Path) -> None:
    described = describe_stack(RunFolder(tmp_path), Secrets(), UpSettings(), ProcessCounts(), {})
    environs = {each.name: each.env for each in described.processes}

    def logins(name: str) -> dict[str, str | None]:
        environ = environs[name]
        return {what: urlsplit(environ[key]).username for key, what in _LOGINS.items() if key in environ}

    assert logins("gateway-1") == {"database": "agentchat_gateway", "nats": "gateway", "redis": "gateway"}
    assert logins("orchestrator-1") == {
        "database": "agentchat_orchestrator", "nats": "orchestrator", "redis": "orchestrator"
    }  # fmt: skip
    assert logins("tool-runner-1") == {"database": "agentchat_tool_runner", "nats": "tool-runner"}
    assert logins("projector-1") == {
        "database": "agentchat_projector", "nats": "projector", "streams": "provisioner"
    }  # fmt: skip
    assert logins("mcp-demo") == logins("model-demo") == {}
