"""Checking an agent: its tool servers by a tool-runner, and next to it its provider by an orchestrator."""

import asyncio

from bus.errors import BusUnavailable
from bus.rpc import Rpc
from contracts import messages, subjects, tool_messages
from contracts.timings import CHECK_ANSWER_SECONDS

_NO_RUNNER = "No tool-runner answers just now, so the tool servers were not looked at."
_NO_ORCHESTRATOR = "No orchestrator answers just now, so the model was not called."


async def check_agent(rpc: Rpc, account_id: str, agent_id: str, agent_version: int) -> messages.AgentCheck:
    """What works for that version of the agent. Never raises: what could not be checked is reported."""
    servers, provider = await asyncio.gather(
        _servers(rpc, account_id, agent_id, agent_version),
        _provider(rpc, account_id, agent_id, agent_version),
    )
    return messages.AgentCheck(servers=servers, provider=provider)


async def _servers(
    rpc: Rpc, account_id: str, agent_id: str, agent_version: int
) -> tuple[tool_messages.ServerCheck, ...]:
    question = tool_messages.CheckTools(account_id=account_id, agent_id=agent_id, agent_version=agent_version)
    try:
        checked = await rpc.ask(
            subjects.TOOLS_CHECK, question, tool_messages.ToolsChecked, timeout=CHECK_ANSWER_SECONDS
        )
    except BusUnavailable:
        return (tool_messages.ServerCheck(name="*", ok=False, detail=_NO_RUNNER),)
    return checked.servers


async def _provider(rpc: Rpc, account_id: str, agent_id: str, agent_version: int) -> messages.ProviderCheck:
    question = messages.CheckModel(account_id=account_id, agent_id=agent_id, agent_version=agent_version)
    try:
        checked = await rpc.ask(
            subjects.MODELS_CHECK, question, messages.ModelChecked, timeout=CHECK_ANSWER_SECONDS
        )
    except BusUnavailable:
        return messages.ProviderCheck(ok=False, code="unavailable", detail=_NO_ORCHESTRATOR)
    return checked.provider
