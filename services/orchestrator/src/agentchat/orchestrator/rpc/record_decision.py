"""Record a person's decision about a tool call, or the results of a client's tools.

They are recorded at the conversation's version that they were made on.
The last decision that a run waits for ends its pause in the log. The run is requested here; if that fails,
`projector.run_sweeper` requests it. Called through `gateway.runs.decide_approval`
and `gateway.runs.return_results`.
"""

import contextlib
from typing import Any

from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import wire
from agentchat.contracts.messages import ApprovalAnswered, DecideApproval, ReturnToolResults
from agentchat.conversations.aggregate import approval_rules
from agentchat.conversations.aggregate.approval_rules import ApprovalAnswer, DecisionEvents, DecisionRefused
from agentchat.conversations.aggregate.client_tool_rules import return_results
from agentchat.conversations.aggregate.conversation import Conversation, Run
from agentchat.conversations.aggregate.rebuild_request import DECIDED, rebuild_request
from agentchat.conversations.aggregate.rounds import Call
from agentchat.conversations.errors import UnknownEvent, UnreadableEvent, VersionConflict
from agentchat.conversations.event_store.mapper import UNREADABLE
from agentchat.conversations.postgres_sessions import read_server_time
from agentchat.directory.agent_config import AgentConfig
from agentchat.orchestrator.run.run_log import get_run
from agentchat.orchestrator.services import WorkerServices
from agentchat.orchestrator.tools.offered_tools import MAX_INPUT_BYTES
from agentchat.orchestrator.tools.tool_list_cache import ToolsUnavailable
from agentchat.runtime import failpoints
from agentchat.runtime.logs import get_logger
from agentchat.runtime.postgres import DatabaseUnavailable

_UNKNOWN = ApprovalAnswered(code="not_found", detail="The approval does not exist.")
_AWAY = ApprovalAnswered(
    code="overloaded", detail="The decision cannot be recorded at the moment. Try again."
)


async def record_decision(
    services: WorkerServices, command: DecideApproval | ReturnToolResults
) -> ApprovalAnswered:
    """Record the decision, or the results of a client's tools, if there are none; safe to repeat.

    Raises:
        DatabaseUnavailable
        UnknownEvent: A worker of a newer release must be asked.
    """
    try:
        while True:
            conversation = await services.store.load(command.conversation_id)
            try:
                return await _decide(services, command, conversation)
            except VersionConflict:
                continue
    except UnknownEvent:
        raise
    except UnreadableEvent as error:  # it stays so: trying again does not help
        get_logger("commands").error("decision_unreadable", reason=str(error))
        return ApprovalAnswered(code="internal_error", detail=UNREADABLE)
    except (DatabaseUnavailable, ToolsUnavailable):
        return _AWAY


async def _decide(
    services: WorkerServices, command: DecideApproval | ReturnToolResults, conversation: Conversation
) -> ApprovalAnswered:
    """Decide on a loaded conversation. Raises VersionConflict if another writer has appended."""
    run = conversation.run(command.trace_id)
    if run is None or not conversation.is_open_to(command):
        return _UNKNOWN
    now, answer = await read_server_time(services.pool), None
    if isinstance(command, ReturnToolResults):
        outcome = return_results(run, command.results, command.by, now=now)
    else:
        answer = ApprovalAnswer(**{name: getattr(command, name) for name in ApprovalAnswer.__struct_fields__})
        outcome = approval_rules.decide_approval(run, answer, now=now)
    if isinstance(outcome, DecisionRefused):
        return ApprovalAnswered(code=outcome.code, detail=outcome.detail)
    if isinstance(outcome, DecisionEvents):
        if answer is not None and (problem := await _find_problem(services, command.account_id, run, answer)):
            return ApprovalAnswered(code="invalid_request", detail=problem)
        failpoints.reach("orchestrator-before-decision")
        conversation = await services.store.append(conversation, outcome.events)
        failpoints.reach("orchestrator-decided")
    await _request_run(services, conversation, get_run(conversation, command.trace_id))
    return ApprovalAnswered()


async def _request_run(services: WorkerServices, conversation: Conversation, run: Run) -> None:
    """Request the run again if it waits for no further approval."""
    if run.is_unpaused:
        with contextlib.suppress(BusUnavailable):
            await services.bus.queues.request_chat(rebuild_request(conversation, run, DECIDED + run.attempt))


async def _find_problem(services: WorkerServices, account_id: str, run: Run, answer: ApprovalAnswer) -> str:
    """Return what is wrong with an edited input or with the content that a tool asked for; "" if nothing is.

    Raises:
        ToolsUnavailable, DatabaseUnavailable
    """
    found = approval_rules.find_approval(run, answer.approval_id)
    assert found is not None, "it can be decided about"
    call, asked = found[0], found[1].asked
    if asked is not None and (problem := approval_rules.find_fault(asked, answer)):
        return problem
    given = answer.input if asked is None else approval_rules.build_content(asked, answer)
    if given is None or answer.decision != "approved":
        return ""
    if len(wire.encode(given)) > MAX_INPUT_BYTES:
        return f"The input is longer than {MAX_INPUT_BYTES} bytes."
    agent = await services.agents.load_version(account_id, run.agent_id, run.agent_version)
    if agent is None:
        return "The agent no longer exists."
    schema = await _load_schema(services, agent, call) if asked is None else asked.requested_schema or {}
    checked = await services.schema_checks.check(agent, wire.encode(given).decode(), schema)
    return f"{checked.field} {checked.reason}".strip()


async def _load_schema(services: WorkerServices, agent: AgentConfig, call: Call) -> dict[str, Any]:
    for spec in await services.listings.get_tools(agent):
        if spec.name == call.name:
            return spec.input_schema
    raise ToolsUnavailable(call.name)
