"""Apply the rules of a started run: which step is next, and how the run completes.

Values in, values out: `orchestrator.run.run_attempt.run_steps` performs the step and appends the events.
"""

import msgspec

from agentchat.contracts import events
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.rounds import Call, Round


class Retrieve(msgspec.Struct, frozen=True):
    """Search the agent's knowledge, and append SourcesRetrieved."""


class CallModel(msgspec.Struct, frozen=True):
    """Call the model for this round, and append Delta, ModelReplied and its ToolCalled events.

    After the last reply the run's end is appended with them. `tools` False: the last call, with the tools
    still listed and `tool_choice` none.
    """

    round: int
    tools: bool


class RunTools(msgspec.Struct, frozen=True):
    """Run these calls of the round concurrently, and append a ToolReturned for each."""

    round: int
    calls: tuple[Call, ...]


class RequestApproval(msgspec.Struct, frozen=True):
    """Append an ApprovalRequested for each of these calls of the round; then the run waits.

    If a tool asks a person (ElicitationRequested), these are asked about with it. A call of a client's tool
    gets a ClientToolRequested instead, once all others have returned.
    """

    round: int
    calls: tuple[Call, ...]


Step = Retrieve | CallModel | RunTools | RequestApproval


def decide_next_step(run: Run) -> Step | None:
    """Return the run's next step.

    Returns None if it has ended, waits for approvals, or `conclude` ends it.
    """
    if run.state != "running" or run.pending:
        return None
    if run.retrieves and run.sources is None:
        return Retrieve()
    if not run.rounds:
        return _call_model(run, 1)
    last = run.rounds[-1]
    if last.blocks is None:
        return _call_model(run, last.number)
    if _is_final(run, last):
        return None
    if allowed := tuple(call for call in last.calls if call.output is None and call.may_run):
        return RunTools(round=last.number, calls=allowed)
    if held := list_held_calls(last) or _list_client_calls(last):
        return RequestApproval(round=last.number, calls=held)
    return _call_model(run, last.number + 1)


def list_held_calls(last: Round) -> tuple[Call, ...]:
    """List the calls of the round that need an approval that was not requested yet."""
    return tuple(
        call
        for call in last.calls
        if call.output is None and not (call.may_run or call.pending or call.is_client)
    )


def _list_client_calls(last: Round) -> tuple[Call, ...]:
    return tuple(call for call in last.calls if call.output is None and call.is_client)


def _call_model(run: Run, number: int) -> CallModel:
    return CallModel(round=number, tools=number <= run.max_tool_rounds)


def _is_final(run: Run, last: Round) -> bool:
    """Return True if the reply ends the run.

    It asks for no tool, or for tools that are not allowed any more.
    """
    return not last.calls or last.number > run.max_tool_rounds


def conclude(run: Run, *, message_id: str, now: str) -> tuple[events.Event, ...]:
    """Return the saved reply and the completion of a run whose last reply asks for no tool.

    () if the run has more to do, waits, or has ended.
    """
    if run.state != "running" or run.pending or not run.rounds or decide_next_step(run) is not None:
        return ()
    saved = events.MessageSaved(
        trace_id=run.trace_id,
        at=now,
        message_id=message_id,
        role="assistant",
        agent_id=run.agent_id,
        content=run.text,
        token_count=run.usage.total,
    )
    completed = events.RunCompleted(trace_id=run.trace_id, at=now, usage=run.usage, rounds=len(run.rounds))
    return (saved, completed)
