"""`agentchat up` as a whole: what it starts, keeps running, and leaves."""

import signal
from pathlib import Path

import httpx
import psycopg
import pytest

from agentchat.ops import demo_env
from agentchat.ops.errors import NotRunningError
from agentchat.ops.service_processes import Servers
from tests.harness import RunningStack, start_stack
from tests.stack.processes import SERVERS, chat, running_for, until, wait_none_running

pytestmark = pytest.mark.slow


async def test_killed_stack_leaves_nothing_and_starts_again(tmp_path: Path) -> None:
    stack = start_stack(tmp_path / "run")
    try:
        await stack.wait_up()
        assert _errors_of_postgres(stack) == []
        first = stack.environment
        answer = await chat(stack, first.api_key, first.agent_id)
        assert answer.status_code == 200
        assert await stack.stop(signal.SIGKILL) == -signal.SIGKILL
        await wait_none_running(stack.folder.path, 20)
        with pytest.raises(NotRunningError):
            demo_env.load(stack.folder)

        stack = start_stack(stack.folder.path)
        await stack.wait_up()
        assert _errors_of_postgres(stack) == []
        again = stack.environment
        assert again.mcp_base_url == first.mcp_base_url, "so that no agent gets a new version"
        assert again.api_key == first.api_key
        assert again.agent_id == first.agent_id
        assert again.load_api_key == first.load_api_key
        assert again.admin_token == first.admin_token
        async with httpx.AsyncClient(base_url=again.base_url) as client:
            path = f"/v1/conversations/{answer.json()['conversation_id']}/messages"
            read = await client.get(path, headers={"X-Api-Key": again.api_key})
        assert [message["role"] for message in read.json()["data"]] == ["user", "assistant"]
        stack.send(signal.SIGINT)
        await until(lambda: "stopping" in stack.log.read_text(), 20)
        stack.send(signal.SIGTERM)  # a second one hurries nobody
    finally:
        code = await stack.stop(signal.SIGTERM)
    assert code == 0
    assert running_for(stack.folder.path) == {}
    for left in (stack.folder.demo_env, stack.folder.processes, stack.folder.postgres / "postmaster.pid"):
        assert not left.exists()
    printed = stack.log.read_text()
    assert "killing the services" not in printed
    assert "killing it" not in printed


async def test_second_ctrl_c_kills_services_but_not_postgres(tmp_path: Path) -> None:
    stack = start_stack(tmp_path / "run")
    try:
        await stack.wait_up()
        stack.send(signal.SIGTERM)
        await until(lambda: "stopping" in stack.log.read_text(), 20)
        stack.send(signal.SIGINT)
    finally:
        code = await stack.stop()
    assert code == 0
    printed = stack.log.read_text()
    assert "killing the services" in printed
    assert "killing it" not in printed
    assert "database system is shut down" in stack.folder.log("postgres").read_text()
    assert running_for(stack.folder.path) == {}


async def test_a_start_that_is_broken_off_leaves_nothing(tmp_path: Path) -> None:
    stack = start_stack(tmp_path / "run")
    await until(lambda: len(running_for(stack.folder.path)) > 5, 60)
    assert await stack.stop() == 0
    assert running_for(stack.folder.path) == {}
    assert not stack.folder.demo_env.exists()


async def test_a_service_that_cannot_start_ends_the_start_with_its_reason(tmp_path: Path) -> None:
    stack = start_stack(tmp_path / "run", environ={"AGENTCHAT_STREAM_FORM": "9"})
    assert await stack.wait_end() == 1
    last = stack.log.read_text().splitlines()[-1]
    assert "gateway-1 does not start: AGENTCHAT_STREAM_FORM '9' cannot be used" in last
    assert running_for(stack.folder.path) == {}


async def test_servers_that_run_elsewhere_are_used_and_left_alone(
    tmp_path: Path, servers: Servers, database_url: str, fresh_nats_url: str
) -> None:
    elsewhere = {
        "AGENTCHAT_DATABASE_URL": database_url,
        "AGENTCHAT_NATS_URL": fresh_nats_url,
        "AGENTCHAT_REDIS_URL": servers.redis_url,
    }
    stack = start_stack(tmp_path / "run", environ=elsewhere)
    try:
        await stack.wait_up()
        found = stack.environment
        assert not SERVERS & set(stack.names())
        assert [found.database_url, found.nats_url, found.redis_url] == list(elsewhere.values())
        assert (await chat(stack, found.api_key, found.agent_id)).status_code == 200
    finally:
        assert await stack.stop() == 0
    psycopg.connect(database_url).close()


def _errors_of_postgres(stack: RunningStack) -> list[str]:
    lines = stack.folder.log("postgres").read_text().splitlines()
    return [line for line in lines if " ERROR: " in line or " FATAL: " in line]
