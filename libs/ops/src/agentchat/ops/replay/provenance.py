"""Load how a message was made: the run, the agent's version, and what the model was shown."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from agentchat.administration.agent_rows import AgentRow, find_agent
from agentchat.contracts import events
from agentchat.contracts.admin_errors import NotFound
from agentchat.contracts.ids import is_trace_id, is_uuid
from agentchat.contracts.values import Form, Role, RunWarning, Source, Usage
from agentchat.conversations.aggregate.compaction_rules import find_opening, find_run_index
from agentchat.conversations.aggregate.conversation import Conversation, Run, fold
from agentchat.conversations.aggregate.model_messages import Message, build_round_messages
from agentchat.conversations.aggregate.rounds import Call
from agentchat.conversations.event_store.event_log import Log, LogEntry
from agentchat.conversations.projections.conversations_table import is_behind
from agentchat.conversations.projections.messages_table import find_message
from agentchat.conversations.queries.find_by_trace import find_run
from agentchat.ops.connections import NoneSuchError
from agentchat.runtime.postgres import Connection, Pool, acquire_connection


class Change(msgspec.Struct, frozen=True):
    """A field of the agent's configuration that has changed since the run."""

    field: str
    then: Any
    now: Any


class RecordedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """The agent version that answered; `config` is None if it no longer exists.

    `current` is the agent's version now; `changes` are the differences between the two.
    """

    agent_id: str
    version: int
    current: int | None
    config: dict[str, Any] | None
    changes: list[Change]


class WorkerAttempt(msgspec.Struct, frozen=True):
    """An attempt at the run; `worker` is None in runs older than worker tracking."""

    attempt: int
    at: str
    worker: str | None


class RoundProvenance(msgspec.Struct, frozen=True, kw_only=True):
    """A model call with the text of its reply; `at` is when the reply was recorded.

    The hashes are those of `events.ModelReplied`. `seconds` is the time from the run's previous event to the
    reply. The model received the first `messages` of `Provenance.messages`.
    """

    number: int
    at: str
    seconds: float
    messages: int
    text: str
    stop_reason: str
    usage: Usage
    prompt_sha256: str | None
    tools_sha256: str | None
    calls: tuple[Call, ...]


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """A message and its origin. `lost` is the usage of model calls that were abandoned and repeated.

    `compacted` is the summary that the model received instead of earlier runs. `messages` are those of the
    last model call, in the form of Anthropic's Messages API, without retrieved passages: the log has only
    their sources.
    """

    message_id: str | None
    role: Role | None
    conversation_id: str
    account_id: str
    versions: tuple[int, int]
    trace_id: str
    requested_at: str
    ended_at: str | None
    state: Literal["running", "completed", "failed", "cancelled"]
    code: str | None
    detail: str | None
    provider_message: str | None
    form: Form
    agent: RecordedAgent
    model: str
    warnings: tuple[RunWarning, ...]
    prompt_override: str | None
    sources: tuple[Source, ...] | None
    compacted: events.ContextCompacted | None
    messages: list[Message]
    rounds: list[RoundProvenance]
    attempts: list[WorkerAttempt]
    usage: Usage
    lost: Usage


_LOST = events.ReplyLost | events.WarningRaised


async def load_provenance(pool: Pool, name: str) -> Provenance:
    """Load the provenance of a message by its id, or of a reply by its trace id.

    Raises NoneSuchError, DatabaseUnavailable, UnreadableEvent.
    """
    log = Log(pool)
    conversation_id, trace_id = await _locate_run(pool, log, name)
    entries = await log.read_rows(conversation_id)
    conversation = fold(conversation_id, (entry.event for entry in entries))
    run = conversation.run(trace_id)
    if run is None or conversation.account_id is None:
        raise NoneSuchError(f"no such message: {name}")
    async with acquire_connection(pool) as conn:
        agent = await _load_answering_version(conn, conversation.account_id, run)
    own = [entry for entry in entries if entry.event.trace_id == trace_id]
    return _build_provenance(name, conversation, run, own, agent)


async def _locate_run(pool: Pool, log: Log, name: str) -> tuple[str, str]:
    """Find the conversation and the trace. Raises NoneSuchError."""
    if is_trace_id(name):
        found = await find_run(pool, name)
        if found is None or found.begun_at is None:
            raise NoneSuchError(f"no such trace: {name}")
        return found.conversation_id, name
    if not is_uuid(name):
        raise NoneSuchError(f"not a message id or trace id: {name[:100]!r}")
    head = await log.read_head()
    place = await find_message(pool, name)
    if place is None:
        async with acquire_connection(pool) as conn:
            late = " (the read models lag behind the log: try again)" if await is_behind(conn, head) else ""
        raise NoneSuchError(f"no such message: {name}{late}")
    return place


async def _load_answering_version(conn: Connection, account_id: str, run: Run) -> RecordedAgent:
    async def find(version: int | None) -> tuple[AgentRow | None, dict[str, Any]]:
        try:
            row = await find_agent(conn, run.agent_id, version)
        except NotFound:
            return None, {}
        return (row, msgspec.json.decode(row.config)) if row.account_id == account_id else (None, {})

    then, config = await find(run.agent_version)
    now, current = await find(None)
    differing = [name for name in config | current if config.get(name) != current.get(name)]
    return RecordedAgent(
        agent_id=run.agent_id,
        version=run.agent_version,
        current=None if now is None else now.version,
        config=None if then is None else config,
        changes=[Change(name, config.get(name), current.get(name)) for name in differing if then and now],
    )


def _build_provenance(
    name: str, conversation: Conversation, run: Run, own: Sequence[LogEntry], agent: RecordedAgent
) -> Provenance:
    facts = [entry.event for entry in own]
    saved = [fact for fact in facts if isinstance(fact, events.MessageSaved)]
    message = next((fact for fact in saved if fact.message_id == name), saved[-1] if saved[1:] else None)
    opening, _ = find_opening(conversation, find_run_index(run.trace_id, conversation.runs))
    return Provenance(
        message_id=message.message_id if message else None,
        role=message.role if message else None,
        conversation_id=conversation.conversation_id,
        account_id=conversation.account_id or "",
        versions=(own[0].version, own[-1].version),
        trace_id=run.trace_id,
        requested_at=run.requested_at,
        ended_at=run.ended_at,
        state=run.state,
        code=run.code,
        detail=run.detail,
        provider_message=run.provider_message,
        form=run.form,
        agent=agent,
        model=run.model,
        warnings=run.warnings,
        prompt_override=run.prompt_override,
        sources=run.sources,
        compacted=opening if isinstance(opening, events.ContextCompacted) else None,
        messages=build_round_messages(conversation, run, run.replies[-1].number) if run.replies else [],
        rounds=list(_list_rounds(conversation, run, facts)),
        attempts=[
            WorkerAttempt(fact.attempt, fact.at, fact.worker)
            for fact in facts
            if isinstance(fact, events.RunStarted)
        ],
        usage=run.usage,
        lost=sum((fact.usage for fact in facts if isinstance(fact, _LOST)), Usage()),
    )


def _list_rounds(
    conversation: Conversation, run: Run, facts: Sequence[events.Event]
) -> Iterator[RoundProvenance]:
    rounds = {each.number: each for each in run.rounds}
    since = run.requested_at
    for fact in facts:
        if isinstance(fact, events.ModelReplied):
            elapsed = datetime.fromisoformat(fact.at) - datetime.fromisoformat(since)
            yield RoundProvenance(
                number=fact.round,
                at=fact.at,
                seconds=round(max(0.0, elapsed.total_seconds()), 3),
                messages=len(build_round_messages(conversation, run, fact.round)),
                text=rounds[fact.round].text,
                stop_reason=fact.stop_reason,
                usage=fact.usage,
                prompt_sha256=fact.prompt_sha256,
                tools_sha256=fact.tools_sha256,
                calls=rounds[fact.round].calls,
            )
        if not isinstance(fact, events.Delta):
            since = fact.at
