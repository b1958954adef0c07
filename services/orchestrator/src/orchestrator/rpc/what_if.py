"""`chat.replay.what_if`: a recorded run done again with another version, model or prompt of an agent.

The turn is `turn_loop`'s and the model is called as for any run; the conversation is kept in memory, and
tools and sources come out of the record. Nothing is appended, published or counted.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from contracts import messages, subjects, wire
from contracts.messages import AskedTool, WhatIfAnswered
from conversations.aggregate.conversation import Conversation, Run, evolve_all
from conversations.aggregate.turn import Begin, ask_again, open_turn
from conversations.errors import TooMuchLoaded, UnknownEvent, UnreadableEvent
from directory.agents import AgentConfig
from net_guard.addresses import looking_up_for
from orchestrator.models import Credentials, Model, ModelFailure
from orchestrator.orchestrator_services import Parts
from orchestrator.output.final_output import OutputSpec
from orchestrator.rpc.recorded import MemoryLog, NoReaders, RecordedSources, RecordedTools
from orchestrator.run.channel import TraceChannel
from orchestrator.run.interrupted_text import AlreadySent
from orchestrator.run.interruption import Interrupted, Interruption
from orchestrator.run.model_reply import Replies, RoundCost
from orchestrator.run.perform import Performer
from orchestrator.run.run_clock import RunClock
from orchestrator.run.turn_loop import run_turn
from orchestrator.run_agent import credentials_of, facts_of
from orchestrator.tools.listed_tools import ToolsUnavailable
from runtime import logs
from runtime.postgres import DatabaseUnavailable

QUEUE = "orchestrator"
MOST_BYTES = 4 * 1024 * 1024
"""Of an answer: the bus carries 8 MiB."""


@asynccontextmanager
async def serving_what_ifs(parts: Parts) -> AsyncIterator[None]:
    """Answer WhatIf while the block runs, as one of all orchestrators; those under way are then given up."""
    running: set[Interruption] = set()

    async def answer(data: bytes) -> bytes:
        question = wire.decode_message(messages.WhatIf, data)
        interruption = Interruption()
        running.add(interruption)
        try:
            with (
                logs.bound(trace_id=question.trace_id, account_id=question.account_id),
                looking_up_for(question.account_id),
                parts.loads.loading_for(question.account_id),
            ):
                done = await answered(parts, question, interruption)
                logs.get_logger("what_if").info(
                    "what_if_answered",
                    outcome=done.outcome,
                    code=done.code,
                    tokens=done.usage.total,
                    ms=done.ms,
                )
                return _fitting(done)
        finally:
            running.discard(interruption)

    async with parts.bus.rpc.serving(subjects.WHAT_IF, QUEUE, answer):
        try:
            yield
        finally:
            for interruption in running:
                interruption.interrupt("shutdown")


async def answered(parts: Parts, question: messages.WhatIf, interruption: Interruption) -> WhatIfAnswered:
    """What the run comes to with that agent, within the question's seconds. Raises nothing."""
    interruption.limit(question.seconds)
    rerun: Rerun | None = None
    try:
        rerun = await interruption.allowed(lambda: _prepared(parts, question))
        if rerun is None:
            return WhatIfAnswered(outcome="not_found", detail="There is no such run that has ended.")
        await rerun.go(interruption)
    except ModelFailure as failure:
        return _failed(rerun, failure.code, str(failure))
    except ToolsUnavailable:
        return _failed(rerun, "overloaded", "The agent's tools cannot be listed just now.")
    except Interrupted as interrupted:
        if interrupted.reason == "deadline":
            return _failed(rerun, "deadline_exceeded", f"It was not done in {question.seconds:g} s.")
        return WhatIfAnswered(outcome="unavailable", detail="The worker stopped.")
    except (DatabaseUnavailable, TooMuchLoaded, UnknownEvent) as error:
        return WhatIfAnswered(outcome="unavailable", detail=str(error))
    except UnreadableEvent as error:
        return _failed(rerun, "internal_error", f"The conversation cannot be read: {error}")
    return rerun.told("completed")


class Rerun:
    """One recorded run on its second way, with all that it needs at hand."""

    def __init__(
        self,
        parts: Parts,
        agent: AgentConfig,
        model: Model,
        credentials: Credentials,
        passages_of: AgentConfig,
        before: Conversation,
        recorded: Run,
    ) -> None:
        self._parts = parts
        self._agent = agent
        self._began = time.perf_counter()
        self._clock = clock = RunClock(recorded.requested_at)
        self._tools = RecordedTools(recorded, clock)
        self._sources = RecordedSources(parts.pool, passages_of, recorded)
        opening = open_turn(
            before, ask_again(before, recorded, 1), facts_of(agent), now=clock.now(), expired=False
        )
        assert isinstance(opening, Begin), "what comes before a run that has ended lets one begin"
        self._log = MemoryLog(evolve_all(before, opening.events), recorded.trace_id)
        self._channel = TraceChannel(NoReaders(), recorded.trace_id, 1)
        self._cost = RoundCost()
        output = OutputSpec(agent, parts.schema_checks, model, credentials.base_url, recorded.output_schema)
        self._performer = Performer(
            log=self._log,
            agent=agent,
            replies=Replies(model, agent.provider, credentials, self._channel, output),
            listings=parts.listings,
            histories=parts.histories,
            tools=self._tools,
            channel=self._channel,
            clock=clock,
            cost=self._cost,
            already=AlreadySent(),
            retriever=self._sources,
            output=output,
            asks=False,
        )

    async def go(self, interruption: Interruption) -> None:
        """Take the turn to its end. Raises ModelFailure, ToolsUnavailable, Interrupted."""
        await interruption.allowed(self._list_tools)
        self._began = time.perf_counter()
        await run_turn(self._performer, interruption, self._parts.stop)

    def told(
        self, outcome: messages.WhatIfOutcome, code: str | None = None, detail: str | None = None
    ) -> WhatIfAnswered:
        run = self._log.run
        return WhatIfAnswered(
            outcome=outcome,
            code=code,
            detail=detail,
            model=run.model,
            content=run.text,
            rounds=len(run.rounds),
            calls=tuple(
                AskedTool(
                    round=each.number,
                    name=call.name,
                    input=call.input,
                    missed=call.call_id in self._tools.missed,
                )
                for each in run.rounds
                for call in each.calls
            ),
            sources_missed=self._sources.missed,
            usage=run.usage + self._cost.unrecorded(run),
            ms=round((time.perf_counter() - self._began) * 1000),
        )

    async def _list_tools(self) -> None:
        """A comparison with fewer tools than the agent has would say nothing. Raises ToolsUnavailable."""
        await self._performer.offered()
        if missing := self._parts.listings.missing(self._agent):
            raise ToolsUnavailable(", ".join(missing))


async def _prepared(parts: Parts, question: messages.WhatIf) -> Rerun | None:
    """None where the account has no such run that has ended.

    Raises ModelFailure for an agent that cannot be used, DatabaseUnavailable, UnreadableEvent.
    """
    conversation = await parts.log.conversation(question.conversation_id)
    recorded = conversation.run(question.trace_id)
    if conversation.account_id != question.account_id or recorded is None or recorded.state == "running":
        return None
    agent = await parts.agents.at_version(question.account_id, question.agent_id, question.agent_version)
    if agent is None:
        raise ModelFailure("agent_not_found", "There is no such agent, or no such version of it.")
    agent = replace(
        agent,
        model=question.model or agent.model,
        system_prompt=agent.system_prompt if question.system_prompt is None else question.system_prompt,
    )
    before = replace(conversation, runs=conversation.runs[: conversation.runs.index(recorded)])
    return Rerun(
        parts,
        agent,
        await parts.models.of(agent.provider),
        credentials_of(parts.agents, parts.models, agent),
        await _passages_of(parts, agent, recorded),
        before,
        recorded,
    )


async def _passages_of(parts: Parts, agent: AgentConfig, recorded: Run) -> AgentConfig:
    """The agent, looking where the one that answered looked: only there are the passages that it found."""
    if agent.retrieval is None:
        return agent
    answered_by = await parts.agents.at_version(agent.account_id, recorded.agent_id, recorded.agent_version)
    if answered_by is None or answered_by.retrieval is None:
        return agent
    return replace(agent, retrieval=answered_by.retrieval)


def _failed(rerun: Rerun | None, code: str, detail: str) -> WhatIfAnswered:
    if rerun is None:
        return WhatIfAnswered(outcome="failed", code=code, detail=detail)
    return rerun.told("failed", code, detail)


def _fitting(answer: WhatIfAnswered) -> bytes:
    data = wire.encode(answer)
    if len(data) <= MOST_BYTES:
        return data
    detail = f"The replayed run is longer than {MOST_BYTES:,} bytes."
    short = WhatIfAnswered(outcome="failed", code="internal_error", detail=detail, usage=answer.usage)
    return wire.encode(short)
