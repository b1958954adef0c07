"""Apply the rules by which a request starts, resumes or joins a run, waits, or is refused.

Values in, values out: the caller passes the time and the ids, and appends the events. Called by
`orchestrator.inbox.inbox` and `orchestrator.starting.decide_request`. `next_step` has the rules of the run.
"""

import msgspec

from agentchat.contracts import events
from agentchat.contracts.messages import ChatRequested
from agentchat.contracts.values import AgentFacts, ApprovalNeeded
from agentchat.conversations.aggregate import approval_rules, busy_rules
from agentchat.conversations.aggregate.conversation import (
    MAX_BYTES,
    MAX_EVENTS,
    Conversation,
    Run,
    copy_agent_facts,
    copy_request_facts,
)
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
    """Append these events to start the run's next attempt, if this worker holds its lease."""

    events: tuple[events.Event, ...]


class GiveUpRun(msgspec.Struct, frozen=True):
    """Append these events to end a run as failed after too many attempts without progress."""

    events: tuple[events.Event, ...]


class ReceiveMessage(msgspec.Struct, frozen=True):
    """Append this event: the worker of the run `trace_id` saves the message.

    It does so at the run's next round boundary, or ends the run first if the message `interrupts` it. The
    request waits until the message is saved.
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


class Rejected(msgspec.Struct, frozen=True):
    """Nothing is appended; `code` is one of `contracts.errors`.

    `approvals` are those that the conversation waits for, `running_trace_id` is the run under way in it.
    """

    code: str
    message: str
    approvals: tuple[ApprovalNeeded, ...] = ()
    running_trace_id: str | None = None


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


def decide_opening(
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
    if conversation.version > 0 and not conversation.is_open_to(request):
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
        prompt_override=request.prompt,
        worker=worker,
        offset=offset,
        **facts,
        **copy_request_facts(request),
    )


_OF_A_TASK = {"max_tool_rounds": 0, "retrieves": False}
"""The values that a run without tools records instead of the agent's own."""


NOT_FOUND = Rejected(code="conversation_not_found", message="No such conversation.")
_FULL = Rejected(
    code="conversation_full",
    message=(
        f"The conversation has {MAX_EVENTS:,} events or {MAX_BYTES // 2**20} MiB: start a new one with a"
        " summary of it, or fork it at an earlier message."
    ),
)
_GONE_ON = Rejected(
    code="conversation_busy", message="The conversation changed since you loaded it. Load it again."
)
_BUSY = "A message of this conversation is being answered."
_NO_FILES = "attachments: a message that joins the reply under way cannot have files. Send it later."
_EXPIRED = Rejected(code="overloaded", message="No worker was available in time. Try again.")


def refuse_request(conversation: Conversation, request: ChatRequested, *, expired: bool) -> Rejected | None:
    """Return why a request without a run is refused; None if it is not."""
    active, on_busy = conversation.active, request.on_busy
    if expired:
        return _EXPIRED
    if conversation.is_full:
        return _FULL
    waits = active is not None and active.pending and on_busy != "interrupt"
    if active is not None and waits and approval_rules.on_new_message(active) == "refuse":
        return _reject_undecided(active)
    if active is not None and on_busy == "refuse":
        return Rejected(code="conversation_busy", message=_BUSY, running_trace_id=active.trace_id)
    if _has_gone_on(conversation, request):
        return _GONE_ON
    if active is not None and not active.pending and on_busy == "steer" and request.attachments:
        return Rejected(code="unsupported_attachment", message=_NO_FILES)
    return None


def _reject_undecided(run: Run) -> Rejected:
    ids = tuple(ApprovalNeeded(id=each.id) for each in approval_rules.list_needed_approvals(run))
    return Rejected(
        code="approval_pending",
        message="A tool call in this conversation waits for approval. Decide it first.",
        approvals=ids,
    )


def _has_gone_on(conversation: Conversation, request: ChatRequested) -> bool:
    """Return True if the conversation is not as the caller shows it.

    Clients omit failed attempts that produced no output. The claim of an earlier try may have been taken over
    for a request that shows what it begins with.
    """
    if request.history:
        return conversation.version > 0
    if request.after is None:
        return False
    for run in reversed(conversation.runs):
        if run.reply is not None:
            return run.reply.id != request.after
        if run.state == "running" and request.on_busy in ("interrupt", "steer"):
            continue  # the client does not show it yet, or in part
        if run.state == "running" or run.rounds or run.user_text.strip() != request.message.strip():
            return True
    return True
