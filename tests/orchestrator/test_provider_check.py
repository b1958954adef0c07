"""Checking an agent: a real call to its provider, and every way in which that can come to nothing."""

import asyncio
from typing import Any

import pytest

from agentchat.bus.commands import check_agent
from agentchat.contracts.ids import make_id
from agentchat.contracts.messages import AgentCheck
from agentchat.directory.agent_config import McpServer
from tests.orchestrator.given import SECONDS, World
from tests.orchestrator.scripted import Answer, break_off, fail_with, reply_with
from tests.orchestrator.toolbox import Toolbox

KEY = "sk-ant-CANARY-0123456789"


async def check(world: World, agent_id: str) -> AgentCheck:
    """Once an orchestrator answers."""
    async with asyncio.timeout(SECONDS):
        while True:
            checked = await check_agent(world.bus.rpc, world.account_id, agent_id, 1)
            if checked.provider.code != "unavailable":
                return checked
            await asyncio.sleep(0.05)


async def test_check_reports_missing_provider_or_key(world: World) -> None:
    async with world.worker("elsewhere", anthropic_base_url="http://127.0.0.1:1"):
        assert (await check(world, await world.agent())).provider.code == "unreachable"
        assert (await check(world, await world.agent(provider_key=None))).provider.code == "no_key"
        assert (await check(world, make_id())).provider.code == "agent_not_found"
    agent = await world.agent(mcp_servers=(McpServer(name="a", url="https://x/"),))
    found = await check_agent(world.bus.rpc, world.account_id, agent, 1)
    assert found.ok is False
    assert found.provider.code == "unavailable"
    assert [(server.name, server.ok) for server in found.servers] == [("*", False)]


async def test_the_call_carries_the_agents_key_model_and_parameters(system: World) -> None:
    system.will(reply_with("Hello", " there"))
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    agent = await system.agent(
        "claude-x",
        provider_key=KEY,
        parameters={"temperature": 0.5, "max_tokens": 9},
        output_type="json",
        output_schema=schema,
    )
    checked = await check(system, agent)
    assert (checked.provider.ok, checked.provider.code, checked.provider.detail) == (True, "ok", "")
    (call,) = system.calls
    sent: dict[str, Any] = {name: call.body[name] for name in ("model", "temperature", "max_tokens")}
    assert sent == {"model": "claude-x", "temperature": 0.5, "max_tokens": 9}
    assert call.body["output_config"]["format"]["schema"]["required"] == ["a"]
    assert KEY in call.headers.get("x-api-key", "") + call.headers.get("authorization", "")
    assert KEY not in repr(checked)


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (
            fail_with(400, "invalid_request_error", f"top_k: no {KEY}"),
            "bad_parameter",
            "It said: top_k: no [hidden]",
        ),
        (
            fail_with(401, "authentication_error", f"SECRET {KEY}"),
            "authentication",
            "rejected the agent's key",
        ),
        (fail_with(402, "billing_error", "SECRET"), "billing", "out of credit"),
        (fail_with(403, "permission_error", "SECRET"), "permission", "may not use this model"),
        (fail_with(404, "not_found_error", "model: claude-x"), "model_not_found", "It said: model: claude-x"),
        (fail_with(404, "not_found_error", "Not Found"), "wrong_base_url", "must not include /v1"),
        (fail_with(405, "not_found_error", ""), "wrong_base_url", "base URL"),
        (fail_with(308, "moved", location="/v1"), "wrong_base_url", "base URL"),
        (fail_with(429, "rate_limit_error", "SECRET", retry_after="9"), "overloaded", "overloaded"),
        (fail_with(529, "overloaded_error", "SECRET"), "overloaded", "overloaded"),
        (fail_with(500, "api_error", "SECRET"), "provider_error", "failed"),
        (break_off(how="overloaded_error"), "overloaded", "overloaded"),
        (break_off(how="close"), "ok", ""),
    ],
)
async def test_refusals_of_the_provider_are_classified(
    system: World, answer: Answer, code: str, words: str
) -> None:
    system.will(answer)
    found = (await check(system, await system.agent(provider_key=KEY))).provider
    assert found.code == code
    assert found.ok == (code == "ok")
    assert words in found.detail
    assert "SECRET" not in found.detail
    assert KEY not in found.detail
    assert len(system.calls) == 1


async def test_a_check_calls_as_a_chat_would(box: Toolbox, system: World) -> None:
    system.will(fail_with(400, "invalid_request_error", "tools.0.description: too long"))
    agent = await system.agent(
        system_prompt="Be brief.", mcp_servers=(McpServer(name="shop", url="https://shop.example/mcp"),)
    )
    found = (await check(system, agent)).provider
    (call,) = system.calls
    assert call.system == "Be brief."
    assert [tool["name"] for tool in call.body["tools"]] == [spec.name for spec in box.specs]
    assert (found.code, "It said: tools.0.description: too long" in found.detail) == ("bad_parameter", True)
