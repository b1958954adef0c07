"""One recorded run on its second way: the turn of every run, with its record at the ends."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.contracts.replay_messages import WhatIf, WhatIfAnswered
from agentchat.contracts.values import ToolSpec
from agentchat.conversations.aggregate.compaction import Compact, find_last_covered_version
from agentchat.conversations.aggregate.conversation import Conversation, Run, evolve_all, fold
from agentchat.conversations.aggregate.turn import StartRun, open_turn, rebuild_request
from agentchat.conversations.event_store import mapper
from agentchat.directory.agent_config import AgentConfig
from agentchat.directory.compaction_settings import Compaction
from agentchat.orchestrator.models import Credentials, Model, ModelFailure
from agentchat.orchestrator.models.port import text_sha256
from agentchat.orchestrator.orchestrator_services import Parts
from agentchat.orchestrator.output.final_output import OutputSpec
from agentchat.orchestrator.rerun.recorded import MemoryLog, NoReaders, RecordedSources, RecordedTools
from agentchat.orchestrator.run.channel import TraceChannel
from agentchat.orchestrator.run.interrupted_text import AlreadySent
from agentchat.orchestrator.run.interruption import Interruption
from agentchat.orchestrator.run.model_reply import Replies, RoundCost
from agentchat.orchestrator.run.perform import Performer
from agentchat.orchestrator.run.run_clock import RunClock
from agentchat.orchestrator.run.turn_loop import run_turn
from agentchat.orchestrator.run_agent import credentials_of, facts_of
from agentchat.orchestrator.tools.listed_tools import ToolsUnavailable


class Recorded(msgspec.Struct, frozen=True):
    """A run that has ended, and the conversation as it was before it."""

    before: Conversation
    run: Run


async def prepared(parts: Parts, question: WhatIf) -> "Rerun | None":
    """None where there is no such run that has ended.

    Raises ModelFailure for an agent that cannot be used, DatabaseUnavailable, UnreadableEvent.
    """
    recorded = await _recorded_of(parts, question)
    if recorded is None:
        return None
    agent = await _agent_of(parts, question)
    # With a record all that it has is in the question.
    searching = agent if question.record is not None else await _searched_by(parts, agent, recorded.run)
    model = await parts.models.of(agent.provider)
    credentials = credentials_of(parts.agents, parts.models, agent)
    return Rerun(parts, question, recorded, agent, searching, model, credentials)


async def _recorded_of(parts: Parts, question: WhatIf) -> Recorded | None:
    """The run; None where the log has none such of the account, or the record none, that has ended.

    Raises UnreadableEvent, UnknownEvent, DatabaseUnavailable.
    """
    if question.record is None:
        conversation = await parts.log.load_conversation(question.conversation_id)
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
    return fold(conversation_id, (mapper.decode_event(bytes(each)) for each in record))


async def _agent_of(parts: Parts, question: WhatIf) -> AgentConfig:
    """Load the agent that answers. Raises ModelFailure if there is no such agent, DatabaseUnavailable."""
    agent = await parts.agents.at_version(question.account_id, question.agent_id, question.agent_version)
    if agent is None:
        raise ModelFailure("agent_not_found", "There is no such agent, or no such version of it.")
    return replace(
        agent,
        model=question.model or agent.model,
        system_prompt=agent.system_prompt if question.system_prompt is None else question.system_prompt,
    )


async def _searched_by(parts: Parts, agent: AgentConfig, recorded: Run) -> AgentConfig:
    """The agent, looking where the one that answered looked: only there are the passages that it found."""
    if agent.retrieval is None:
        return agent
    answered_by = await parts.agents.at_version(agent.account_id, recorded.agent_id, recorded.agent_version)
    if answered_by is None or answered_by.retrieval is None:
        return agent
    return replace(agent, retrieval=answered_by.retrieval)


class Rerun:
    """One replay, with all that it needs at hand. `searching` knows where the passages are."""

    def __init__(
        self,
        parts: Parts,
        question: WhatIf,
        recorded: Recorded,
        agent: AgentConfig,
        searching: AgentConfig,
        model: Model,
        credentials: Credentials,
    ) -> None:
        before, run = recorded.before, recorded.run
        self._parts = parts
        self._agent = agent
        self._question = question
        self._began = time.perf_counter()
        clock = RunClock(run.requested_at)
        self._tools = RecordedTools(run, clock)
        passages = None if question.record is None else question.passages
        self._sources = RecordedSources(parts.pool, searching, run, passages)
        asked = rebuild_request(before, run, 1)
        opening = open_turn(before, asked, facts_of(agent), now=clock.now(), expired=False)
        if not isinstance(opening, StartRun):
            raise ModelFailure("conversation_busy", "The run could not begin where it stands in its record.")
        self._log = MemoryLog(evolve_all(before, opening.events), run.trace_id)
        channel = TraceChannel(NoReaders(), run.trace_id, 1)
        self._cost = RoundCost()
        output = OutputSpec(agent, parts.schema_checks, model, credentials.base_url, run.output_schema)
        offered = question.offered
        self._performer = RerunPerformer(
            log=self._log,
            agent=agent,
            replies=Replies(model, agent.provider, credentials, channel, output),
            listings=parts.listings,
            histories=parts.histories,
            tools=self._tools,
            channel=channel,
            clock=clock,
            cost=self._cost,
            already=AlreadySent(),
            retriever=self._sources,
            output=output,
            asks=False,
            summary=run.compacted,
            given=None if offered is None else {spec.name: spec for spec in offered},
        )

    async def go(self, interruption: Interruption) -> None:
        """Take the turn to its end. Raises ModelFailure, ToolsUnavailable, Interrupted, Diverged."""
        await interruption.allowed(self._list_tools)
        self._began = time.perf_counter()
        await run_turn(self._performer, interruption, self._parts.stop)

    def result(self) -> WhatIfAnswered:
        """What it has come to, as if it were complete."""
        run = self._log.run
        return WhatIfAnswered(
            outcome="completed",
            model=run.model,
            content=run.text,
            rounds=len(run.rounds),
            calls=self._tools.calls_of(run),
            sources_missed=self._sources.missed,
            usage=run.usage + self._cost.unrecorded(run),
            ms=round((time.perf_counter() - self._began) * 1000),
        )

    async def _list_tools(self) -> None:
        """A comparison with fewer tools than the agent has would say nothing. Raises ToolsUnavailable."""
        await self._performer.offered()
        if self._question.offered is None and (missing := self._parts.listings.missing(self._agent)):
            raise ToolsUnavailable(", ".join(missing))


@dataclass(kw_only=True)
class RerunPerformer(Performer):
    """`given` are tools that were not listed, but are offered; `summary` is the recorded run's."""

    summary: events.ContextCompacted | None = None
    given: Mapping[str, ToolSpec] | None = None

    async def offered(self) -> Mapping[str, ToolSpec]:
        return await super().offered() if self.given is None else self.given

    async def compact(self, step: Compact) -> Sequence[events.Event]:
        """The recorded summary, where it is of the same runs, by the same model and instruction.

        The model would write another each time, and all that follows would differ for that alone.
        """
        run, known = self.log.run, self.summary
        instruction = (self.agent.compaction or Compaction()).instruction
        if (
            known is None
            or known.model != run.model
            or known.prompt_sha256 != text_sha256(instruction)
            or known.through_version
            != find_last_covered_version(self.log.conversation, run.trace_id, step.runs)
        ):
            return await super().compact(step)
        return (replace(known, trace_id=run.trace_id, at=self.clock.now()),)
