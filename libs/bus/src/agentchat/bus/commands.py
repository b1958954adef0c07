"""Send requests that other services answer: commands to conversations, checks and lists of tools.

Commands go to `orchestrator.rpc.conversation_commands`. They raise BusUnavailable if nobody answers or
Postgres does not: the command may or may not have taken effect. Repeating it with the same ids is safe.
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

_NO_RUNNER = "No tool-runner answered, so the tool servers were not checked."
_NO_ORCHESTRATOR = "No orchestrator answered, so the model was not called."


async def erase_conversation(
    rpc: Rpc,
    account_id: str,
    conversation_id: str,
    *,
    trace_id: str,
    user_id: str | None = None,
    idle_since: str | None = None,
) -> bool:
    """Erase a conversation; return True if it is gone for every reader from now on.

    False: the account or its user has no such conversation; it may be unknown, another's, or erased before.
    With `idle_since`, an ISO 8601 time, also if a run is open or a message has been saved since then.
    A repeat with the same `trace_id` (that of the request, 32 hex digits) returns True again.
    """
    command = messages.EraseConversation(
        trace_id=trace_id,
        account_id=account_id,
        conversation_id=conversation_id,
        user_id=user_id,
        idle_since=idle_since,
    )
    return (await _send(rpc, command, messages.EraseAnswered)).outcome == "erased"


async def describe_conversation(
    rpc: Rpc, command: messages.DescribeConversation
) -> messages.DescribeAnswered:
    """Set the title and metadata of a conversation."""
    return await _send(rpc, command, messages.DescribeAnswered)


async def decide_approval(rpc: Rpc, command: messages.DecideApproval) -> messages.ApprovalAnswered:
    """Decide about a tool call."""
    return await _send(rpc, command, messages.ApprovalAnswered)


async def return_tool_results(rpc: Rpc, command: messages.ReturnToolResults) -> messages.ApprovalAnswered:
    """Return the results of a client's tools to the run that waits for them."""
    return await _send(rpc, command, messages.ApprovalAnswered)


async def give_feedback(rpc: Rpc, command: messages.GiveFeedback) -> messages.FeedbackAnswered:
    """Store feedback on a reply, or withdraw it."""
    return await _send(rpc, command, messages.FeedbackAnswered)


async def fork_conversation(rpc: Rpc, command: messages.ForkConversation) -> messages.ForkAnswered:
    """Start a conversation with a copy of another one."""
    return await _send(rpc, command, messages.ForkAnswered)


async def _send(rpc: Rpc, command: messages.Command, reply: type[wire.M]) -> wire.M:
    """Send a command and return the first answer, asking again if there is none.

    A frozen worker may have taken the command and never answer. One that only takes longer continues, and the
    repeat finds the command done.
    """
    subject = subjects.format_commands(command.account_id)
    for ask in range(1, COMMAND_ASKS + 1):
        try:
            answer = await rpc.ask(subject, command, reply, timeout=COMMAND_ASK_SECONDS)
            break
        except BusUnavailable:
            if ask == COMMAND_ASKS:
                raise
    if getattr(answer, "outcome", None) == "unavailable":
        raise BusUnavailable("the command could not be carried out")
    return answer


async def check_agent(rpc: Rpc, account_id: str, agent_id: str, agent_version: int) -> messages.AgentCheck:
    """Check the tool servers and the provider of an agent version.

    Never raises: what could not be checked is reported.
    """
    servers, checked = await asyncio.gather(
        _check_servers(rpc, account_id, agent_id, agent_version),
        _check_provider(rpc, account_id, agent_id, agent_version),
    )
    return messages.AgentCheck(servers=servers, provider=checked.provider, fallbacks=checked.fallbacks)


async def _check_servers(
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


async def _check_provider(
    rpc: Rpc, account_id: str, agent_id: str, agent_version: int
) -> messages.ModelChecked:
    question = messages.CheckModel(account_id=account_id, agent_id=agent_id, agent_version=agent_version)
    try:
        return await rpc.ask(
            subjects.MODELS_CHECK, question, messages.ModelChecked, timeout=CHECK_ANSWER_SECONDS
        )
    except BusUnavailable:
        unavailable = messages.ProviderCheck(ok=False, code="unavailable", detail=_NO_ORCHESTRATOR)
        return messages.ModelChecked(provider=unavailable)


async def list_tools(
    rpc: Rpc, account_id: str, agent_id: str, agent_version: int, *, fresh: bool = False
) -> tool_messages.ToolsListed:
    """List the tools of an agent version. Asks once. Raises BusUnavailable."""
    question = tool_messages.ListTools(
        account_id=account_id, agent_id=agent_id, agent_version=agent_version, fresh=fresh
    )
    return await rpc.ask(subjects.TOOLS_LIST, question, tool_messages.ToolsListed, timeout=TOOLS_LIST_SECONDS)
