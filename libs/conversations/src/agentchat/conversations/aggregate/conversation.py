"""The state of a conversation, and `evolve`, the only function that changes it.

A conversation is a list of runs: each is a user's message, the rounds of model and tools that answer it, and
an end. `evolve` is total: an event that fits no run changes only the version, so every stored log loads.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from agentchat.contracts import events, values
from agentchat.contracts.files import StoredFile
from agentchat.contracts.ownership import Owned, may_use
from agentchat.conversations.aggregate.model_calls import RecordedCall, find_model_call
from agentchat.conversations.aggregate.rounds import (
    Call,
    Round,
    add_call,
    add_request,
    apply_decision,
    join_message,
    mark_resumed,
    update_call,
    update_fields,
    update_last_calls,
)

RunState = Literal["running", "completed", "failed", "cancelled"]

MAX_EVENTS = 50_000
MAX_BYTES = 32 * 1024 * 1024
"""The most bytes of a conversation's stored events. A run that has started may exceed it; no other starts."""

MAX_DESCRIBED = 100
"""The last requests that set a title or metadata: an older one that is repeated is carried out again."""


class Run(values.RunFacts, frozen=True, kw_only=True):
    """One request, from its user message to its end. `attempt` is 0 until a worker has started it.

    The fields of RunFacts are its request's, those of AgentFacts its agent's.
    `inherited`: a copy of a run of the conversation that this one was forked from.
    `attempts_without_progress` counts the attempts since the run last progressed, by an event or by text that
    reached readers; attempts that were handed over do not count. `offset` is the most text, in code points,
    that readers are known to have had when an attempt started. `documents` is as in ModelReplied,
    `provider_message` as in RunFailed. `model` answers: the agent's, or its fall-back by number, `fallback`.
    `paused_seconds` is the time spent in finished waits for approvals. `feedback` on its reply has the newest
    of each name, oldest first. `received` are other requests' messages for it that are not saved yet.
    """

    trace_id: str
    agent_id: str
    user_message_id: str
    user_text: str
    requested_at: str
    attachments: tuple[StoredFile, ...] = ()
    version: int = 0
    inherited: bool = False
    attempt: int = 0
    attempts_without_progress: int = 0
    offset: int = 0
    paused_seconds: float = 0.0
    agent_version: int = 0
    model: str = ""
    max_tool_rounds: int = 8
    retrieves: bool = False
    on_interruption: Literal["continue", "fail"] = "continue"
    form: values.Form = "json"
    prompt_override: str | None = None
    sources: tuple[values.Source, ...] | None = None
    documents: str | None = None
    compacted: events.ContextCompacted | None = None
    compacted_behind: int = 0
    warnings: tuple[values.RunWarning, ...] = ()
    warned_behind: tuple[int, ...] = ()
    fallback: int = 0
    rounds: tuple[Round, ...] = ()
    reply: values.Message | None = None
    state: RunState = "running"
    code: str | None = None
    detail: str | None = None
    provider_message: str | None = None
    usage: values.Usage = values.Usage()
    model_calls: tuple[RecordedCall, ...] = ()
    ended_at: str | None = None
    feedback: tuple[events.FeedbackGiven, ...] = ()
    received: tuple[events.MessageReceived, ...] = ()

    @property
    def text(self) -> str:
        """The text of all rounds, joined without separator.

        It was streamed, and is saved as the reply.
        """
        return "".join(each.text for each in self.rounds)

    @property
    def replies(self) -> tuple[Round, ...]:
        """The rounds whose reply is recorded."""
        return tuple(each for each in self.rounds if each.blocks is not None)

    @property
    def rating(self) -> float | None:
        """The mean score of the feedback on its reply, None without any."""
        return sum(each.score for each in self.feedback) / len(self.feedback) if self.feedback else None

    @property
    def pending(self) -> tuple[Call, ...]:
        """The calls that a person has to decide about.

        While there is one, no worker holds the run.
        """
        if self.state != "running" or not self.rounds:
            return ()
        return tuple(call for call in self.rounds[-1].calls if call.pending)

    @property
    def is_unpaused(self) -> bool:
        """Return True if its calls are decided and no attempt has started since."""
        calls = self.rounds[-1].calls if self.state == "running" and not self.pending and self.rounds else ()
        return any(each.resumed == 0 for call in calls for each in call.approvals)

    @property
    def cut(self) -> values.Cut | None:
        """The reason why the last round's text ends early; None if it is complete."""
        return values.CUTS.get(self.rounds[-1].stop_reason or "") if self.rounds else None


class ForkedFrom(msgspec.Struct, frozen=True):
    """The conversation that a fork was made of, and how many of its first events the fork has."""

    conversation_id: str
    version: int


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation at a version: the version of its last event, 0 if it does not exist.

    `user_id` is the end user who started it, `external_id` its account's own name for it. `forked_from` names
    the source of its copied past, `seed` are messages that its caller showed before it began here. `title`
    and `metadata` are those set by its account. `described` are the last requests that set them: their trace
    ids, and the versions after them. `tool_lists` are the recorded tool lists by their hash. `erased_by` is
    the trace id of the request that erased it. `stored_bytes` counts the events that it was loaded from;
    folding does not change it.
    """

    conversation_id: str
    version: int = 0
    account_id: str | None = None
    user_id: str | None = None
    external_id: str | None = None
    started_at: str | None = None
    forked_from: ForkedFrom | None = None
    seed: tuple[values.ShownMessage, ...] = ()
    runs: tuple[Run, ...] = ()
    title: str | None = None
    metadata: dict[str, str] = {}
    described: tuple[tuple[str, int], ...] = ()
    tool_lists: dict[str, tuple[values.ToolSpec, ...]] = {}
    erased_by: str | None = None
    stored_bytes: int = 0

    @property
    def id(self) -> str:
        """The same as `conversation_id`, by the name that the eventsourcing library uses."""
        return self.conversation_id

    @property
    def erased(self) -> bool:
        """Return True if it was erased."""
        return self.erased_by is not None

    def is_open_to(self, request: Owned) -> bool:
        """Return True if the request may use it; an erased one is nobody's."""
        return not self.erased and may_use(request, self)

    @property
    def is_full(self) -> bool:
        """Return True if no run may start in it because it would take too long to load."""
        return self.version >= MAX_EVENTS or self.stored_bytes >= MAX_BYTES

    @property
    def active(self) -> Run | None:
        """The run in progress; there is at most one."""
        return next((run for run in reversed(self.runs) if run.state == "running"), None)

    def get_recorded_tools(self, run: Run) -> tuple[values.ToolSpec, ...] | None:
        """Return the tools that the run's last reply was offered, None if they were not recorded."""
        replies = run.replies
        return self.tool_lists.get(replies[-1].tools_sha256 or "") if replies else None

    def run(self, trace_id: str) -> Run | None:
        """Return the run of a trace, None if it has none."""
        for run in reversed(self.runs):  # from the end: nearly always it is the last
            if run.trace_id == trace_id:
                return run
        return None


_STARTED_WITH = tuple(name for name in events.STARTED_WITH if name in Conversation.__struct_fields__)


def evolve(conversation: Conversation, event: events.Event) -> Conversation:
    """Return the conversation after an event."""
    return evolve_all(conversation, (event,))


def fold(conversation_id: str, stored: Iterable[events.Event]) -> Conversation:
    """Return the conversation that results from its events, the first one included."""
    return evolve_all(Conversation(conversation_id=conversation_id), stored)


def evolve_all(conversation: Conversation, following: Iterable[events.Event]) -> Conversation:
    """Return the conversation after these events, as if evolved one by one."""
    runs = list(conversation.runs)  # changed in place: a tuple for each event makes a long fold quadratic
    for event in following:
        conversation = _evolve(conversation, runs, event)
    return replace(conversation, runs=tuple(runs))


def _evolve(conversation: Conversation, runs: list[Run], event: events.Event) -> Conversation:
    """Evolve everything but `runs`, which are changed in place."""
    version = conversation.version + 1
    match event:
        case events.ConversationStarted():
            started = {name: getattr(event, name) for name in _STARTED_WITH}
            return replace(conversation, version=version, started_at=event.at, **started)
        case events.ConversationForked():
            forked_from = ForkedFrom(event.source_id, event.source_version)
            return replace(conversation, version=version, forked_from=forked_from)
        case events.ConversationSeeded():
            return replace(conversation, version=version, seed=event.messages)
        case events.ConversationDescribed():
            described = (*conversation.described, (event.trace_id, version))[-MAX_DESCRIBED:]
            set_now = {"title": event.title, "metadata": event.metadata}
            return replace(conversation, version=version, described=described, **set_now)
        case events.ConversationErased():
            runs.clear()
            return Conversation(
                conversation_id=conversation.conversation_id,
                version=version,
                account_id=event.account_id,
                started_at=conversation.started_at,
                erased_by=event.trace_id,
            )
        case events.MessageSaved(role="user", steers=msgspec.UNSET):
            runs.append(_build_run(event, version))
        case events.ModelReplied(offered_tools=tuple() as tools, tools_sha256=str() as digest):
            _evolve_run_in(conversation.conversation_id, runs, event)
            lists = conversation.tool_lists | {digest: tools}
            return replace(conversation, version=version, tool_lists=lists)
        case _:
            _evolve_run_in(conversation.conversation_id, runs, event)
    return replace(conversation, version=version)


def _build_run(message: events.MessageSaved, version: int) -> Run:
    return Run(
        trace_id=message.trace_id,
        agent_id=message.agent_id,
        user_message_id=message.message_id,
        user_text=message.content,
        attachments=message.attachments,
        requested_at=message.at,
        version=version,
        inherited=message.inherited_from is not msgspec.UNSET,
    )


def _evolve_run_in(conversation_id: str, runs: list[Run], event: events.Event) -> None:
    for index in range(len(runs) - 1, -1, -1):  # from the end: nearly always it is the last
        if runs[index].trace_id == event.trace_id:
            run = _evolve_run(conversation_id, runs[index], event)
            call = find_model_call(event)
            runs[index] = run if call is None else replace(run, model_calls=(*run.model_calls, call))
            return


def _evolve_run(conversation_id: str, run: Run, event: events.Event) -> Run:
    match event:
        case events.RunStarted():
            return _apply_start(run, event)
        case events.SourcesRetrieved():
            return replace(run, sources=event.sources, attempts_without_progress=0)
        case events.ContextCompacted():
            return replace(
                run,
                compacted=event,
                compacted_behind=len(run.replies),
                usage=run.usage + event.usage,
                attempts_without_progress=0,
            )
        case events.Delta():
            rounds = update_fields(run.rounds, event.round, text=event.text, cuts=event.cuts)
            return replace(run, rounds=rounds, attempts_without_progress=0)
        case events.ModelReplied():
            return _apply_reply(run, event)
        case events.WarningRaised():
            run = replace(run, warnings=(*run.warnings, event.to_warning()), usage=run.usage + event.usage)
            run = replace(run, warned_behind=(*run.warned_behind, len(run.replies)))
            return replace(run, model=event.subject, fallback=event.fallback) if event.fallback else run
        case events.ReplyLost():
            attempts = max(0, run.attempts_without_progress - 1)
            return replace(run, usage=run.usage + event.usage, attempts_without_progress=attempts)
        case events.ToolCalled():
            call = Call(
                call_id=event.call_id,
                at=event.at,
                name=event.name,
                input=event.input,
                attempt=run.attempt,
                needs_approval=event.needs_approval,
                is_client=event.is_client,
            )
            return replace(run, rounds=add_call(run.rounds, event.round, call))
        case events.DecisionRequested():
            return replace(run, rounds=add_request(run.rounds, event), attempts_without_progress=0)
        case events.ApprovalDecided():
            return _apply_decision(run, event)
        case events.ToolReturned():
            names = ("output", "is_error", "quotes_server", "files", "ms")
            result = {name: getattr(event, name) for name in names}
            rounds = update_call(run.rounds, event.round, event.call_id, **result)
            return replace(run, rounds=rounds, attempts_without_progress=0)
        case events.MessageReceived():
            return replace(run, received=(*run.received, event))
        case events.MessageSaved(role="user"):
            received = tuple(each for each in run.received if each.message.trace_id != event.steers)
            return replace(run, rounds=join_message(run.rounds, event), received=received)
        case events.MessageSaved():
            return replace(run, reply=event.to_message(conversation_id))
        case events.RunCompleted():
            return replace(run, state="completed", usage=event.usage, ended_at=event.at)
        case events.RunFailed():
            failed = replace(run, state="failed", code=event.code, usage=event.usage, ended_at=event.at)
            return replace(failed, detail=event.message, provider_message=event.provider_message)
        case events.RunCancelled():
            return replace(run, state="cancelled", code=event.code, usage=event.usage, ended_at=event.at)
        case events.FeedbackGiven() | events.FeedbackWithdrawn():
            kept = tuple(each for each in run.feedback if each.on_behalf_of != event.on_behalf_of)
            is_given = isinstance(event, events.FeedbackGiven)
            return replace(run, feedback=(*kept, event) if is_given else kept)
        case _:  # irrelevant to what the run does next
            return run


def _apply_start(run: Run, event: events.RunStarted) -> Run:
    facts = copy_request_facts(event)
    if run.attempt:  # what the request of a takeover omits is as it was
        facts = {name: value or getattr(run, name) for name, value in facts.items()}
    return replace(
        run,
        rounds=update_last_calls(run.rounds, partial(mark_resumed, event=event)),
        attempt=event.attempt,
        attempts_without_progress=1 if event.offset > run.offset else run.attempts_without_progress + 1,
        offset=max(run.offset, event.offset),
        prompt_override=event.prompt_override,
        **facts,
        **copy_agent_facts(event),
    )


def _apply_decision(run: Run, event: events.ApprovalDecided) -> Run:
    waiting = (each for call in run.pending for each in call.pending)
    asked = next((each.requested for each in waiting if each.id == event.approval_id), None)
    if asked is None:
        return run
    run = replace(run, rounds=update_last_calls(run.rounds, partial(apply_decision, event=event)))
    if run.pending:
        return run
    waited = datetime.fromisoformat(event.at) - datetime.fromisoformat(asked.at)
    paused = run.paused_seconds + max(0.0, waited.total_seconds())
    return replace(run, paused_seconds=paused, attempts_without_progress=0)


def copy_agent_facts(recorded: values.AgentFacts | events.RunStarted | Run) -> dict[str, Any]:
    """Return the fields that a run records about its agent."""
    return {name: getattr(recorded, name) for name in values.AgentFacts.__struct_fields__}


def copy_request_facts(recorded: values.RunFacts | events.RunStarted) -> dict[str, Any]:
    """Return the fields that a run records about its request under the same names."""
    return {name: getattr(recorded, name) for name in values.RunFacts.__struct_fields__}


def _apply_reply(run: Run, event: events.ModelReplied) -> Run:
    names = ("blocks", "stop_reason", "provider", "model", "prefix_sha256", "tools_sha256", "usage")
    return replace(
        run,
        rounds=update_fields(run.rounds, event.round, **{name: getattr(event, name) for name in names}),
        documents=run.documents if event.documents is None else event.documents,
        usage=run.usage + event.usage,
        attempts_without_progress=0,
    )
