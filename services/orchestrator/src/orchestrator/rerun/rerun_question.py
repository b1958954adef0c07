"""What a `WhatIf` is about: the conversation with the recorded run, and the agent that is to answer again."""

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from contracts.replay_messages import WhatIf
from conversations.aggregate.conversation import Conversation, Run, fold
from conversations.event_store import mapper
from directory.agents import AgentConfig
from orchestrator.models import ModelFailure
from orchestrator.orchestrator_services import Parts


class Recorded(msgspec.Struct, frozen=True):
    """A run that has ended, and the conversation as it was before it."""

    before: Conversation
    run: Run


async def recorded_of(parts: Parts, question: WhatIf) -> Recorded | None:
    """The run; None where the log has none such of the account, or the record none, that has ended.

    Raises UnreadableEvent, UnknownEvent, DatabaseUnavailable.
    """
    if question.record is None:
        conversation = await parts.log.conversation(question.conversation_id)
        if conversation.account_id != question.account_id:
            return None
    else:
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
    """Load the agent that answers. Raises ModelFailure if there is no such agent, DatabaseUnavailable."""
    agent = await parts.agents.at_version(question.account_id, question.agent_id, question.agent_version)
    if agent is None:
        raise ModelFailure("agent_not_found", "There is no such agent, or no such version of it.")
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
