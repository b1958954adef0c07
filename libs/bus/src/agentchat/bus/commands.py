"""Requests that other services answer: commands to conversations, by orchestrators, and checks of agents.

Commands raise BusUnavailable if nobody serves or Postgres does not answer: whether it happened is then
unknown. To ask again with the same ids is safe.
"""

import asyncio

from agentchat.bus.errors import BusUnavailable
from agentchat.bus.rpc import Rpc
from agentchat.contracts import messages, subjects, tool_messages, wire
from agentchat.contracts.timings import (
    CHECK_ANSWER_SECONDS,
    COMMAND_ASK_SECONDS,
    COMMAND_ASKS,
    TOOLS_LIST_SECONDS,
)

_NO_RUNNER = "No tool-runner answers just now, so the tool servers were not looked at."
_NO_ORCHESTRATOR = "No orchestrator answers just now, so the model was not called."


async def erase_conversation(rpc: Rpc, account_id: str, conversation_id: str, *, trace_id: str) -> bool:
    """Erase a conversation: True if it was there and is gone for every reader from now on.

    False: the account has no such conversation; it may be unknown, another's, or erased before. To ask again
    is true again if it is by the same `trace_id` (that of the request for it, 32 hex).
    """
    command = messages.EraseConversation(
        trace_id=trace_id, account_id=account_id, conversation_id=conversation_id
    )
    return (await _send(rpc, command, messages.EraseAnswered)).outcome == "erased"


async def describe_conversation(
    rpc: Rpc, command: messages.DescribeConversation
) -> messages.DescribeAnswered:
    """Set title and metadata of a conversation."""
    return await _send(rpc, command, messages.DescribeAnswered)


async def decide_approval(rpc: Rpc, command: messages.DecideApproval) -> messages.ApprovalAnswered:
    """Decide about a tool call."""
    return await _send(rpc, command, messages.ApprovalAnswered)


async def give_feedback(rpc: Rpc, command: messages.GiveFeedback) -> messages.FeedbackAnswered:
    """Store feedback on a reply, or take it back."""
    return await _send(rpc, command, messages.FeedbackAnswered)


async def fork_conversation(rpc: Rpc, command: messages.ForkConversation) -> messages.ForkAnswered:
    """Begin a conversation with what another one has."""
    return await _send(rpc, command, messages.ForkAnswered)


async def _send(rpc: Rpc, command: messages.Command, reply: type[wire.M]) -> wire.M:
    """Of whichever worker answers first: one that is frozen takes a command and never does.

    One that only takes longer continues, and a repeat finds it done.
    """
    subject = subjects.commands(command.account_id)
    for ask in range(1, COMMAND_ASKS + 1):
        try:
            answer = await rpc.ask(subject, command, reply, timeout=COMMAND_ASK_SECONDS)
            break
        except BusUnavailable:
            if ask == COMMAND_ASKS:
                raise
    if getattr(answer, "outcome", None) == "unavailable":
        raise BusUnavailable("the command could not be carried out just now")
    return answer


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


async def list_tools(
    rpc: Rpc, account_id: str, agent_id: str, agent_version: int
) -> tool_messages.ToolsListed:
    """The tools of that version of the agent, asked for once. Raises BusUnavailable."""
    question = tool_messages.ListTools(account_id=account_id, agent_id=agent_id, agent_version=agent_version)
    return await rpc.ask(subjects.TOOLS_LIST, question, tool_messages.ToolsListed, timeout=TOOLS_LIST_SECONDS)
