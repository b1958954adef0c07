"""A stack that runs: its processes, what leads to them, and what restarts them."""

import asyncio
import stat
import subprocess

import httpx
import psycopg
import redis.asyncio

from tests.harness import RunningStack
from tests.stack.processes import SERVERS, chat


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
