"""Replay one recorded run with recorded tool results and sources."""

import asyncio
import time
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from agentchat.contracts.replay_messages import WhatIf, WhatIfAnswered
from agentchat.conversations.aggregate.conversation import Conversation, Run, evolve_all, fold
from agentchat.conversations.aggregate.opening_rules import StartRun, decide_opening
from agentchat.conversations.aggregate.rebuild_request import rebuild_request
from agentchat.conversations.event_store import mapper
from agentchat.directory.agent_config import AgentConfig
from agentchat.orchestrator.agent_loader import build_agent_facts
from agentchat.orchestrator.models import Credentials, ModelClient, ModelFailure
from agentchat.orchestrator.models.thinking import ask_for_thinking
from agentchat.orchestrator.output.output_spec import OutputSpec
from agentchat.orchestrator.replay.recorded_tools import (
    MemoryRecorder,
    NullSink,
    RecordedSources,
    RecordedTools,
)
from agentchat.orchestrator.run.channel import TraceChannel
from agentchat.orchestrator.run.interrupted_text import SentOutput
from agentchat.orchestrator.run.interruption import Interruption
from agentchat.orchestrator.run.model_files import ModelFiles
from agentchat.orchestrator.run.model_reply import ReplyStreamer, RoundCost
from agentchat.orchestrator.run.perform_step import Performer
from agentchat.orchestrator.run.run_attempt import run_steps
from agentchat.orchestrator.run.run_clock import RunClock
from agentchat.orchestrator.services import WorkerServices
from agentchat.orchestrator.tools.offered_tools import OfferedTools
from agentchat.orchestrator.tools.tool_list_cache import ToolsUnavailable


class RunRecord(msgspec.Struct, frozen=True):
    """A run that has ended, and the conversation before it."""

    before: Conversation
    run: Run


async def prepare_replay(services: WorkerServices, question: WhatIf) -> "RunReplay | None":
    """Prepare the replay of a run, or return None if there is no such run that has ended.

    Raises:
        ModelFailure: The agent cannot be used.
        DatabaseUnavailable, UnreadableEvent
    """
    recorded = await _load_record(services, question)
    if recorded is None:
        return None
    agent = await _load_agent(services, question)
    # A request with a record of its own brings the passages too.
    searching = (
        agent
        if question.record is not None
        else await _use_recorded_knowledge_base(services, agent, recorded.run)
    )
    model = await services.models.get_model(agent.provider)
    credentials = services.models.resolve_credentials(agent)
    return RunReplay(services, question, recorded, agent, searching, model, credentials)


async def _load_record(services: WorkerServices, question: WhatIf) -> RunRecord | None:
    """Load the run from the log, or from the request's own record; None if it has not ended.

    Raises:
        UnreadableEvent, UnknownEvent, DatabaseUnavailable
    """
    if question.record is None:
        conversation = await services.log.load_conversation(question.conversation_id)
        if conversation.account_id != question.account_id:
            return None
    else:
        # In a thread, since folding a long record would delay other accounts' runs.
        conversation = await asyncio.to_thread(_fold_record, question.conversation_id, question.record)
    run = conversation.run(question.trace_id)
    if run is None or run.state == "running":
        return None
    place = conversation.runs.index(run)
    before = replace(conversation, runs=conversation.runs[:place], version=run.version - 1, stored_bytes=0)
    return RunRecord(before, run)


def _fold_record(conversation_id: str, record: Sequence[msgspec.Raw]) -> Conversation:
    return fold(conversation_id, (mapper.decode_event(bytes(each)) for each in record))


async def _load_agent(services: WorkerServices, question: WhatIf) -> AgentConfig:
    """Load the agent that answers. Raises ModelFailure if there is no such agent, DatabaseUnavailable."""
    agent = await services.agents.load_version(question.account_id, question.agent_id, question.agent_version)
    if agent is None:
        raise ModelFailure("agent_not_found", "The agent or its version does not exist.")
    return ask_for_thinking(
        replace(
            agent,
            model=question.model or agent.model,
            system_prompt=agent.system_prompt if question.system_prompt is None else question.system_prompt,
        )
    )


async def _use_recorded_knowledge_base(
    services: WorkerServices, agent: AgentConfig, recorded: Run
) -> AgentConfig:
    """Return the agent with the recorded agent's knowledge base, which has the recorded passages."""
    if agent.retrieval is None:
        return agent
    answered_by = await services.agents.load_version(
        agent.account_id, recorded.agent_id, recorded.agent_version
    )
    if answered_by is None or answered_by.retrieval is None:
        return agent
    return replace(agent, retrieval=answered_by.retrieval)


class RunReplay:
    """One replay. `searching` is the agent whose knowledge base has the passages."""

    def __init__(
        self,
        services: WorkerServices,
        question: WhatIf,
        recorded: RunRecord,
        agent: AgentConfig,
        searching: AgentConfig,
        model: ModelClient,
        credentials: Credentials,
    ) -> None:
        before, run = recorded.before, recorded.run
        self._services = services
        self._agent = agent
        self._question = question
        self._began = time.perf_counter()
        clock = RunClock(run.requested_at)
        self._tools = RecordedTools(run, clock)
        passages = None if question.record is None else question.passages
        self._sources = RecordedSources(services.pool, searching, run, passages)
        asked = rebuild_request(before, run, 1)
        opening = decide_opening(before, asked, build_agent_facts(agent), now=clock.now(), expired=False)
        if not isinstance(opening, StartRun):
            raise ModelFailure(
                "conversation_busy", "The recorded run could not start at its place in the conversation."
            )
        self._log = MemoryRecorder(evolve_all(before, opening.events), run.trace_id)
        channel = TraceChannel(NullSink(), run.trace_id, 1)
        self._cost = RoundCost()
        output = OutputSpec(agent, services.schema_checks, model, credentials.base_url, run.output_schema)
        given = None if question.offered is None else {spec.name: spec for spec in question.offered}
        self._performer = Performer(
            log=self._log,
            agent=agent,
            replies=ReplyStreamer(model, agent.provider, credentials, channel, output),
            offered=OfferedTools(services.listings, agent, self._log, given=given, asks=False),
            histories=services.histories,
            tools=self._tools,
            channel=channel,
            clock=clock,
            cost=self._cost,
            already=SentOutput(),
            retriever=self._sources,
            files=ModelFiles(services.files, services.conversions, agent.account_id),
            output=output,
            recorded_summary=run.compacted,
        )

    async def run(self, interruption: Interruption) -> None:
        """Run the step loop. Raises ModelFailure, ToolsUnavailable, Interrupted, Diverged."""
        await interruption.run_unless_interrupted(self._list_tools)
        self._began = time.perf_counter()
        await run_steps(self._performer, interruption, self._services.stop)

    def build_answer(self) -> WhatIfAnswered:
        """Build the answer from the replay so far."""
        run = self._log.run
        return WhatIfAnswered(
            outcome="completed",
            model=run.model,
            content=run.text,
            rounds=len(run.rounds),
            calls=self._tools.list_calls(run),
            sources_missed=self._sources.missed,
            usage=run.usage + self._cost.get_unrecorded(run),
            ms=round((time.perf_counter() - self._began) * 1000),
        )

    async def _list_tools(self) -> None:
        """List the tools, all of them: a comparison with fewer would be useless. Raises ToolsUnavailable."""
        await self._performer.offered.load()
        if self._question.offered is None and (
            missing := self._services.listings.get_missing_servers(self._agent)
        ):
            raise ToolsUnavailable(", ".join(missing))
