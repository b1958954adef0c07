"""What a `WhatIf` is about: the conversation with the recorded run, and the agent that is to answer again."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from contracts.replay_messages import NO_VERSION, WhatIf
from conversations.aggregate.conversation import Conversation, Run, fold
from conversations.event_store import mapper
from conversations.event_store.load_budget import count_loaded
from directory.agents import AgentConfig, AgentSettings
from orchestrator.models import ModelFailure
from orchestrator.orchestrator_services import Parts
from runtime.postgres import server_time


class Recorded(msgspec.Struct, frozen=True):
    """A run that has ended, and the conversation as it was before it."""

    before: Conversation
    run: Run


async def recorded_of(parts: Parts, question: WhatIf) -> Recorded | None:
    """The run; None where the log has none such of the account, or the record none, that has ended.

    Raises UnreadableEvent, UnknownEvent, DatabaseUnavailable, TooMuchLoaded.
    """
    if question.record is None:
        conversation = await parts.log.conversation(question.conversation_id)
        if conversation.account_id != question.account_id:
            return None
    else:
        count_loaded(sum(memoryview(each).nbytes for each in question.record))
        # In a thread, as a long one of the log: the runs of other accounts go on meanwhile.
        conversation = await asyncio.to_thread(_folded, question.conversation_id, question.record)
    run = conversation.run(question.trace_id)
    if run is None or run.state == "running":
        return None
    place = conversation.runs.index(run)
    before = replace(conversation, runs=conversation.runs[:place], version=run.version - 1, stored_bytes=0)
    return Recorded(before, run)


def _folded(conversation_id: str, record: Sequence[msgspec.Raw]) -> Conversation:
    return fold(conversation_id, (mapper.event_in(bytes(each)) for each in record))


async def agent_of(parts: Parts, question: WhatIf) -> AgentConfig:
    """Who answers. Raises ModelFailure where there is no such agent, DatabaseUnavailable."""
    stored = None
    if question.agent is None or question.agent_version != NO_VERSION:
        stored = await parts.agents.at_version(question.account_id, question.agent_id, question.agent_version)
        if stored is None:
            raise ModelFailure("agent_not_found", "There is no such agent, or no such version of it.")
    agent = _inline(question, stored) if question.agent is not None else stored
    assert agent is not None, "without a configuration of its own it is the stored one"
    return replace(
        agent,
        model=question.model or agent.model,
        system_prompt=agent.system_prompt if question.system_prompt is None else question.system_prompt,
    )


async def searched_by(parts: Parts, agent: AgentConfig, recorded: Run) -> AgentConfig:
    """The agent, looking where the one that answered looked: only there are the passages that it found."""
    if agent.retrieval is None:
        return agent
    answered_by = await parts.agents.at_version(agent.account_id, recorded.agent_id, recorded.agent_version)
    if answered_by is None or answered_by.retrieval is None:
        return agent
    return replace(agent, retrieval=answered_by.retrieval)


async def now_of(parts: Parts) -> str:
    """The time by Postgres' clock, ISO 8601 UTC. Raises DatabaseUnavailable."""
    return datetime.fromtimestamp(await server_time(parts.pool), UTC).isoformat()


def _inline(question: WhatIf, stored: AgentConfig | None) -> AgentConfig:
    """The question's configuration. The stored version's key goes to no other place than that version's."""
    try:
        settings = msgspec.convert(question.agent, AgentSettings)
    except msgspec.ValidationError as error:
        raise ModelFailure("agent_not_found", f"The agent's configuration is none: {error}") from None
    is_same_place = stored is not None and (stored.provider, stored.base_url) == (
        settings.provider,
        settings.base_url,
    )
    return AgentConfig(
        **msgspec.structs.asdict(settings),
        agent_id=question.agent_id,
        account_id=question.account_id,
        version=question.agent_version,
        created_at="" if stored is None else stored.created_at,
        sealed_key=stored.sealed_key if stored is not None and is_same_place else None,
    )
