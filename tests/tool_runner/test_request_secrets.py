"""Secrets of a request become headers of its own tool calls, and of no others."""

from collections.abc import AsyncIterator

import pytest

from agentchat.directory.agent_config import McpServer
from agentchat.directory.run_secrets import load_run_secrets, save_run_secrets
from agentchat.directory.secret_encryption import Sealer
from agentchat.runtime.postgres import Pool
from tests.tool_runner.handling import Handling, handle_calls
from tests.tool_runner.runner import SECRET_KEY, Agent, make_agent
from tests.tool_runner.scripted import Call, ScriptedServer, serve_script

SEALER = Sealer.from_setting(SECRET_KEY)


class World:
    """The handler of calls, and an agent whose server wants two secrets beside a header of its own."""

    def __init__(self, handling: Handling, agent: Agent, scripted: ScriptedServer) -> None:
        self.calls = handling.calls
        self.pool: Pool = handling.pool
        self.agent = agent
        self.scripted = scripted

    async def call_with(self, **secrets: str) -> tuple[str, str]:
        """Call a tool for a new run with these secrets; return the output and the run's trace."""
        trace_id = self.agent.open_runs.pop()
        if secrets:
            await save_run_secrets(self.pool, SEALER, self.agent.account_id, trace_id, secrets)
        finished = await self.calls.finish(self.agent.call("echo", trace_id=trace_id))
        return finished.output, trace_id


@pytest.fixture
async def world(fresh_nats_url: str, migrated_database_url: str) -> AsyncIterator[World]:
    async def answer(call: Call) -> None:
        await call.send_text(f"{call.headers['authorization']}, {call.headers['x-visitor']}")

    async with (
        serve_script(answer) as scripted,
        handle_calls(fresh_nats_url, migrated_database_url, scripted.port) as handling,
    ):
        server = McpServer(
            name="scripted",
            url=scripted.url,
            headers={"authorization": "Bearer of-the-agent", "X-Shop": "main"},
            headers_from_request={"Authorization": "customer_token", "X-Visitor": "visitor"},
        )
        yield World(handling, await make_agent(migrated_database_url, server), scripted)


async def test_each_run_calls_with_its_own_secrets(world: World) -> None:
    for name in ("ada", "bob"):
        token, visitor = f"Bearer token-of-{name}", f"visitor-{name}"
        output, _ = await world.call_with(customer_token=token, visitor=visitor, unused="not-sent")
        heard = world.scripted.list_calls("tools/call")[-1].headers
        assert (heard["authorization"], heard["x-visitor"], heard["x-shop"]) == (token, visitor, "main")
        assert output == '{"text":"[hidden], [hidden]"}'
    assert len(world.scripted.list_calls("initialize")) == 2, "users share no session"
    assert not any("not-sent" in str(call.headers) for call in world.scripted.seen)


async def test_call_without_a_secret_is_not_made(world: World) -> None:
    output, _ = await world.call_with(customer_token="Bearer token-of-ada")
    assert "needs a secret that the request did not bring" in output
    assert not world.scripted.list_calls("tools/call")


async def test_secrets_are_read_for_their_own_account(world: World) -> None:
    _, trace_id = await world.call_with(customer_token="Bearer token", visitor="visitor-1")
    assert await load_run_secrets(world.pool, SEALER, world.agent.account_id, trace_id)
    assert not await load_run_secrets(world.pool, SEALER, "another account", trace_id)
