"""Apply the rules of a turn.

How a request starts or resumes a run, which step is next, how a run ends. Values in, values out: the caller
passes the time and the ids, performs the step, and appends the events. Called by
`orchestrator.starting.decide_request` (`open_turn`) and `orchestrator.run.turn_loop` (`decide_next_step`).
"""

import msgspec

from agentchat.contracts import events
from agentchat.contracts.messages import ChatRequested
from agentchat.contracts.ownership import may_use
from agentchat.contracts.values import AgentFacts
from agentchat.conversations.aggregate import approval_rules, busy_rules
from agentchat.conversations.aggregate.conversation import (
    Conversation,
    Run,
    copy_agent_facts,
)
from agentchat.conversations.aggregate.refusal_rules import NOT_FOUND as NOT_FOUND
from agentchat.conversations.aggregate.refusal_rules import Rejected as Rejected
from agentchat.conversations.aggregate.refusal_rules import refuse_request
from agentchat.conversations.aggregate.rounds import Call, Round
from agentchat.conversations.aggregate.run_ends import cancel, fail, save_interrupted_reply

MAX_ATTEMPTS_WITHOUT_PROGRESS = 5


class StartRun(msgspec.Struct, frozen=True):
    """Append these events to start the run with attempt 1."""

    events: tuple[events.Event, ...]


class SupersedeRun(msgspec.Struct, frozen=True):
    """Append these events to cancel the waiting run `trace_id` and start this one."""

    trace_id: str
    events: tuple[events.Event, ...]


class ResumeRun(msgspec.Struct, frozen=True):
    """Append these events to start the run's next attempt. Only for the holder of its lease."""

    events: tuple[events.Event, ...]


class GiveUpRun(msgspec.Struct, frozen=True):
    """Append these events to end a run as failed after too many attempts without progress."""

    events: tuple[events.Event, ...]


class ReceiveMessage(msgspec.Struct, frozen=True):
    """Append this event: the worker of the run `trace_id` saves the message. Then the request waits for that.

    The run does so at its next round boundary, or ends for the message if that `interrupts`.
    """

    trace_id: str
    events: tuple[events.MessageReceived]

    @property
    def interrupts(self) -> bool:
        """True if the run has to be stopped."""
        return self.events[0].started is not None


class MustWait(msgspec.Struct, frozen=True):
    """The run `trace_id` is in progress; the request has to wait.

    `for_save`: until the worker of that run saves its message.
    """

    trace_id: str
    for_save: bool = False


class AlreadyJoined(msgspec.Struct, frozen=True):
    """An opening: the request's message has joined the run `trace_id`; only that is announced again."""

    trace_id: str


class AlreadyEnded(msgspec.Struct, frozen=True):
    """An opening: this request's run has ended; only its result is announced again."""

    run: Run


class AlreadyPaused(msgspec.Struct, frozen=True):
    """An opening: this request's run waits for approvals; only that is announced again."""

    run: Run


Opening = (
    StartRun
    | SupersedeRun
    | ResumeRun
    | GiveUpRun
    | ReceiveMessage
    | MustWait
    | AlreadyJoined
    | AlreadyEnded
    | AlreadyPaused
    | Rejected
)


def open_turn(
    conversation: Conversation,
    request: ChatRequested,
    agent: AgentFacts,
    *,
    now: str,
    expired: bool,
    worker: str | None = None,
    heard: int = 0,
) -> Opening:
    """Decide what a request does to its conversation; `worker` would run it.

    `heard`: the code points of the run's text that readers have had by now, recorded or not.

    `expired`: its deadline has passed by Postgres' clock; it is void unless something was appended for it.
    Unknown, erased and foreign conversations get the same message.
    """
    if conversation.version == 0 and not request.new_conversation:
        return NOT_FOUND
    if conversation.version > 0 and (conversation.erased or not may_use(request, conversation)):
        return NOT_FOUND
    run = conversation.run(request.trace_id)
    if run is not None:
        return _reopen(run, request, agent, now, worker, heard)
    active, receiver = conversation.active, None
    if request.on_busy in ("interrupt", "steer"):
        if joined := busy_rules.find_joined_run(conversation, request.trace_id):
            return AlreadyJoined(trace_id=joined.trace_id)
        receiver = busy_rules.find_receiver(conversation, request.trace_id)
    if receiver is not None and receiver is active and not active.pending:
        return MustWait(trace_id=active.trace_id, for_save=True)
    if refusal := refuse_request(conversation, request, expired=expired and receiver is None):
        return refusal
    first = _build_first_events(conversation, request, agent, now, worker)
    if active is None:
        return StartRun(events=first)
    if active.pending:
        interrupted_by = request.trace_id if request.on_busy == "interrupt" else None
        end = save_interrupted_reply(active, (), cancel(active, now, interrupted_by=interrupted_by))
        return SupersedeRun(trace_id=active.trace_id, events=(*end, *first))
    interrupts = request.on_busy == "interrupt"
    if not interrupts and (request.on_busy != "steer" or request.agent_id != active.agent_id):
        return MustWait(trace_id=active.trace_id)
    received = busy_rules.receive_message(active, first, now, interrupts=interrupts)
    return ReceiveMessage(trace_id=active.trace_id, events=(received,))


def _reopen(
    run: Run, request: ChatRequested, agent: AgentFacts, now: str, worker: str | None, heard: int
) -> Opening:
    if run.state != "running":
        return AlreadyEnded(run=run)
    if run.pending:
        return _reopen_paused(run, request, agent, now, worker)
    if _is_stuck(run) and heard <= run.offset:
        code = "generation_interrupted" if run.text else "internal_error"
        return GiveUpRun(events=fail(run, code, "The run was interrupted too many times.", now))
    return ResumeRun(events=(_build_run_started(request, agent, run.attempt + 1, now, worker, heard),))


def _reopen_paused(
    run: Run, request: ChatRequested, agent: AgentFacts, now: str, worker: str | None
) -> ResumeRun | GiveUpRun | AlreadyPaused:
    """Resume or end a waiting run whose approvals have expired."""
    expired = approval_rules.expire_approvals(run, now)
    if not expired:
        return AlreadyPaused(run=run)
    if approval_rules.on_expiry(run) == "fail":
        message = "The approval of a tool call expired."
        failed = events.RunFailed(
            trace_id=run.trace_id, at=now, code="approval_expired", message=message, usage=run.usage
        )
        return GiveUpRun(events=(*expired, failed))
    return ResumeRun(
        events=(*expired, _build_run_started(request, agent, run.attempt + 1, now, worker, len(run.text)))
    )


def _is_stuck(run: Run) -> bool:
    return run.attempts_without_progress >= MAX_ATTEMPTS_WITHOUT_PROGRESS


def has_made_progress(run: Run) -> bool:
    """Return True if a run in progress has used up its attempts once, but progressed since."""
    return run.state == "running" and run.attempt > MAX_ATTEMPTS_WITHOUT_PROGRESS and not _is_stuck(run)


def _build_first_events(
    conversation: Conversation, request: ChatRequested, agent: AgentFacts, now: str, worker: str | None
) -> tuple[events.Event, ...]:
    message = events.MessageSaved(
        trace_id=request.trace_id,
        at=now,
        message_id=request.message_id,
        role="user",
        agent_id=request.agent_id,
        content=request.message,
        attachments=request.attachments,
    )
    started = _build_run_started(request, agent, 1, now, worker)
    if conversation.version > 0:
        return (message, started)
    started_with = {name: getattr(request, name) for name in events.STARTED_WITH}
    first = events.ConversationStarted(trace_id=request.trace_id, at=now, **started_with)
    if not request.history:
        return (first, message, started)
    seeded = events.ConversationSeeded(trace_id=request.trace_id, at=now, messages=request.history)
    return (first, seeded, message, started)


def _build_run_started(
    request: ChatRequested, agent: AgentFacts, attempt: int, now: str, worker: str | None, offset: int = 0
) -> events.RunStarted:
    facts = copy_agent_facts(agent) | (_OF_A_TASK if request.is_task else {})
    return events.RunStarted(
        trace_id=request.trace_id,
        at=now,
        attempt=attempt,
        form=request.form,
        prompt_override=request.prompt,
        **facts,
        worker=worker,
        offset=offset,
        instructions=request.instructions,
        shown_sha256=request.shown_sha256,
        output_schema=request.output_schema,
        requested_model=request.requested_model,
        parameters=request.parameters,
        context=request.context,
        client_tools=request.client_tools,
        tool_choice=request.tool_choice,
        depth=request.depth,
    )


_OF_A_TASK = {"max_tool_rounds": 0, "retrieves": False}
"""What a run that has no tools records instead of the agent's own."""


class Retrieve(msgspec.Struct, frozen=True):
    """Search the agent's knowledge, and append SourcesRetrieved."""


class CallModel(msgspec.Struct, frozen=True):
    """Call the model for this round, and append Delta, ModelReplied and its ToolCalled events.

    `tools` False: the last call, with the tools still listed and `tool_choice` none.
    """

    round: int
    tools: bool


class RunTools(msgspec.Struct, frozen=True):
    """Run these calls of the round concurrently, and append a ToolReturned for each."""

    round: int
    calls: tuple[Call, ...]


class RequestApproval(msgspec.Struct, frozen=True):
    """Append an ApprovalRequested for each of these calls of the round; then the run waits.

    If a tool asks a person (ElicitationRequested), these are asked about with it. Of a client's tools, once
    all others have returned, it is a ClientToolRequested.
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
