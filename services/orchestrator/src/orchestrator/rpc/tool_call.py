"""`chat.tools.call`: one tool of an agent called for a person, by a tool-runner as those of any run are.

There is no run, so the log has nothing of it: whoever asks keeps the audit. Nothing is asked of anybody here
either: whether a person must allow the tool is answered, and who calls it is that person.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bus import BusUnavailable, list_tools
from contracts import subjects, wire
from contracts.timings import CALL_TOOL_SECONDS
from contracts.tool_messages import CallTool, ToolCallAnswered, ToolsListed
from contracts.values import ToolSpec
from conversations.aggregate.conversation import Run
from conversations.aggregate.rounds import Call
from conversations.database import server_now
from directory.agents import AgentConfig
from directory.approval_policy import needs_approval
from orchestrator.orchestrator_services import Parts
from orchestrator.rpc.stoppable_answers import serving_stoppable
from orchestrator.run.interruption import Interrupted, Interruption
from orchestrator.run.run_clock import RunClock
from orchestrator.tools.requested import MAX_INPUT_BYTES
from orchestrator.tools.tool_calls import RunToolCalls, ToolInputRequired
from runtime import logs
from runtime.postgres import DatabaseUnavailable

_CALL_ID = "by-hand"
_STOPPED = "The worker stopped. If the call had begun, it is not known whether it took effect."
_NO_RUNNER = "No tool-runner answers just now, so the tool was not called."


@asynccontextmanager
async def serving_tool_calls(parts: Parts) -> AsyncIterator[None]:
    """Answer CallTool while the block runs, as one of all orchestrators; calls under way are then left."""

    async def answer(question: CallTool, interruption: Interruption) -> bytes:
        try:
            return wire.encode(await interruption.allowed(lambda: answered(parts, question)))
        except Interrupted:
            return wire.encode(ToolCallAnswered(outcome="unavailable", detail=_STOPPED))

    async with serving_stoppable(parts.bus.rpc, subjects.TOOLS_CALL, CallTool, answer):
        yield


async def answered(parts: Parts, question: CallTool) -> ToolCallAnswered:
    """What the call comes to, or whether it could be made. Raises nothing."""
    try:
        clock = RunClock(await server_now(parts.pool))
        ends_at = clock.after(CALL_TOOL_SECONDS)
        agent = await parts.agents.at_version(question.account_id, question.agent_id, question.agent_version)
        if agent is None:
            return _not_found("There is no such agent, or no such version of it.")
        listed = await list_tools(parts.bus.rpc, agent.account_id, agent.agent_id, agent.version)
    except DatabaseUnavailable as error:
        return ToolCallAnswered(outcome="unavailable", detail=str(error))
    except BusUnavailable:
        return ToolCallAnswered(outcome="unavailable", detail=_NO_RUNNER)
    spec = _found(listed, question)
    if isinstance(spec, ToolCallAnswered):
        return spec
    unfit = await _unfit(parts, agent, spec, question)
    if unfit is not None:
        return unfit
    if question.check_only:
        return _hints(agent, spec)
    return await _called(parts, agent, spec, question, clock, ends_at)


def _found(listed: ToolsListed, question: CallTool) -> ToolSpec | ToolCallAnswered:
    for spec in listed.tools:
        if (spec.server, spec.tool) == (question.server, question.tool):
            return spec
    for server in listed.unavailable:
        if server.server in (question.server, "*"):
            return ToolCallAnswered(outcome="unavailable", detail=server.reason)
    return _not_found(
        f"The server {question.server} lists no tool {question.tool[:100]} that this agent may call."
    )


def _not_found(detail: str) -> ToolCallAnswered:
    return ToolCallAnswered(outcome="not_found", detail=detail)


def _hints(agent: AgentConfig, spec: ToolSpec) -> ToolCallAnswered:
    policies = {server.name: server.require_approval for server in agent.mcp_servers}
    return ToolCallAnswered(
        outcome="checked",
        needs_approval=needs_approval(policies.get(spec.server, "always"), spec),
        may_destroy=spec.destructive and not spec.read_only,
    )


async def _unfit(
    parts: Parts, agent: AgentConfig, spec: ToolSpec, question: CallTool
) -> ToolCallAnswered | None:
    """Why the input is not sent; None where it fits the tool's schema."""
    text = wire.encode(question.input)
    if len(text) > MAX_INPUT_BYTES:
        return ToolCallAnswered(
            outcome="invalid_input", detail=f"must not be longer than {MAX_INPUT_BYTES} bytes"
        )
    found = await parts.schema_checks.check(agent, text.decode(), spec.input_schema)
    if not found.problem:
        return None
    return ToolCallAnswered(outcome="invalid_input", field=found.field, detail=found.reason)


async def _called(
    parts: Parts,
    agent: AgentConfig,
    spec: ToolSpec,
    question: CallTool,
    clock: RunClock,
    ends_at: str,
) -> ToolCallAnswered:
    now = clock.now()
    run = Run(
        trace_id=question.trace_id,
        agent_id=agent.agent_id,
        agent_version=agent.version,
        user_message_id="",
        user_text="",
        requested_at=now,
        attempt=1,
    )
    call = Call(call_id=_CALL_ID, at=now, name=spec.name, input=question.input, attempt=1)
    calls = RunToolCalls(
        parts.bus,
        agent,
        run,
        clock,
        ends_at,
        tool_seconds=parts.timings.tool_seconds,
        slack_seconds=parts.timings.tool_slack_seconds,
        no_run=True,
    )
    try:
        (came,) = await calls.run(1, (call,), {spec.name: spec})
    finally:
        await calls.close()
    logs.get_logger("tool_call").info(
        "tool_called_by_hand", agent_id=agent.agent_id, server=spec.server, tool=spec.tool
    )
    if isinstance(came, ToolInputRequired):
        asks = tuple(each.elicitation.message for each in came.requests)
        return ToolCallAnswered(outcome="called", asks=asks)
    return ToolCallAnswered(outcome="called", output=came.output, is_error=came.is_error, ms=came.ms)
