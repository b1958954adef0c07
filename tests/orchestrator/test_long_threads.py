"""A thread of 5,000 turns, on the offline model with a small context window."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from contracts import events, frames
from contracts.ids import new_id
from contracts.messages import ChatRequested
from contracts.values import Usage
from conversations.aggregate.conversation import Conversation, evolve_all
from conversations.aggregate.kept_histories import KeptHistories
from conversations.aggregate.turn import Begin, open_turn
from conversations.event_store.store import ConversationStore, open_store
from directory.agents import AgentConfig
from directory.compaction_settings import Compaction
from model_demo import answer, controls
from model_demo.request_facts import ConversationFacts as Talk
from model_demo.wire import anthropic, token_counts
from orchestrator.models import Credentials, Meter, ModelCall, ModelFailure, OnText, Reply
from orchestrator.models.anthropic.client import body_of
from orchestrator.output.final_output import OutputSpec
from orchestrator.output.schema_checks import SchemaChecks
from orchestrator.rpc.recorded import MemoryLog, NoReaders
from orchestrator.run.channel import TraceChannel
from orchestrator.run.interrupted_text import AlreadySent
from orchestrator.run.interruption import Interruption
from orchestrator.run.model_reply import Replies, RoundCost
from orchestrator.run.perform import Performer, Tools
from orchestrator.run.retrieval import Retriever
from orchestrator.run.run_clock import RunClock
from orchestrator.run.turn_loop import run_turn
from orchestrator.run_agent import facts_of
from orchestrator.tools.listed_tools import ToolListings
from tests.conversations.given import ACCOUNT, AT, LATER
from tests.orchestrator.given import World
from tests.orchestrator.scripted import Exchange, ScriptedProvider

pytestmark = pytest.mark.requirement("COMPACTION")

TURNS = 5_000
WINDOW = 1_000
_BATCH = 3_000
AGENT = AgentConfig(
    agent_id="agent-1",
    account_id=ACCOUNT,
    version=1,
    name="Long",
    model="demo-shop-1",
    compaction=Compaction(context_window=WINDOW, at_share=0.2, keep_runs=2),
)


class DemoModel:
    """`orchestrator.models.Model`: the offline model without its server. `longest` prompt, in tokens."""

    def __init__(self) -> None:
        self.calls = 0
        self.longest = 0

    async def stream(
        self, _credentials: Credentials, call: ModelCall, on_text: OnText | None, meter: Meter
    ) -> Reply:
        text, read, written = answered(msgspec.json.encode(body_of(call)))
        self.calls += 1
        self.longest = max(self.longest, read)
        if read > WINDOW:
            raise ModelFailure("context_too_long")
        meter.usage += Usage(input_tokens=read, output_tokens=written)
        if on_text is not None:
            await on_text(text)
        return Reply(blocks=({"type": "text", "text": text},), stop_reason="end_turn")

    async def check(self, credentials: Credentials, call: ModelCall) -> None:
        raise NotImplementedError

    def enforces(self, base_url: str, parameters: dict[str, Any], schema: dict[str, Any]) -> bool:
        return True

    async def aclose(self) -> None:
        """Nothing is open."""


def answered(body: bytes) -> tuple[str, int, int]:
    """What the offline model says to it, and the tokens that it has read and written."""
    asked = anthropic.asked(body, {}).request
    reply = answer.reply(asked, Talk(asked), *controls.parse(asked.model))
    return reply.text, token_counts.of_request(asked).total, token_counts.of_text(reply.text)


class Recorder(MemoryLog):
    """Keeps the events too."""

    def __init__(self, conversation: Conversation, trace_id: str, stored: list[events.Event]) -> None:
        super().__init__(conversation, trace_id)
        self._stored = stored

    async def append(self, new: Sequence[events.Event]) -> None:
        self._stored += new
        await super().append(new)


class Thread:
    """A conversation whose turns are taken by the orchestrator's own code, in memory."""

    def __init__(self, conversation_id: str, account_id: str) -> None:
        self.conversation = Conversation(conversation_id=conversation_id)
        self.stored: list[events.Event] = []
        self.model = DemoModel()
        self._account_id = account_id
        self._histories = KeptHistories()

    async def say(self, message: str) -> str:
        """One turn, with its reply."""
        number = len(self.conversation.runs)
        request = ChatRequested(
            trace_id=os.urandom(16).hex(),
            attempt=1,
            account_id=self._account_id,
            agent_id=AGENT.agent_id,
            conversation_id=self.conversation.conversation_id,
            new_conversation=number == 0,
            message_id=new_id(),
            message=message,
            form="json",
            requested_at=AT,
            deadline=LATER,
        )
        opening = open_turn(self.conversation, request, facts_of(AGENT), now=AT, expired=False)
        assert isinstance(opening, Begin)
        self.stored += opening.events
        log = Recorder(evolve_all(self.conversation, opening.events), request.trace_id, self.stored)
        await self._run(log)
        self.conversation = log.conversation
        assert log.run.reply is not None
        return log.run.reply.content

    async def _run(self, log: Recorder) -> None:
        channel, cost, clock = TraceChannel(NoReaders(), log.run.trace_id, 1), RoundCost(), RunClock(AT)
        output = OutputSpec(AGENT, cast(SchemaChecks, None), self.model, "")
        performer = Performer(
            log=log,
            agent=AGENT,
            replies=Replies(self.model, "anthropic", Credentials("", ""), channel, output),
            listings=cast(ToolListings, NoTools()),
            histories=self._histories,
            tools=cast(Tools, NoTools()),
            channel=channel,
            clock=clock,
            cost=cost,
            already=AlreadySent(),
            retriever=Retriever(cast(Any, None), AGENT),
            output=output,
        )
        await run_turn(performer, Interruption(), asyncio.Event())


class NoTools:
    """The agent has none."""

    async def of(self, _agent: AgentConfig) -> tuple[()]:
        return ()

    def recorded(self, _run: object) -> None:
        """Nothing is kept."""


@pytest.fixture(scope="module")
async def store(world: World) -> AsyncIterator[ConversationStore]:
    async with open_store(world.settings.database_url) as opened:
        yield opened


async def test_five_thousand_turns_fit_and_the_first_is_still_known(
    world: World, store: ConversationStore, provider: ScriptedProvider
) -> None:
    """The turns are taken in memory, and stored; the last one is a worker's, on the stored log."""

    async def demo(exchange: Exchange) -> None:
        text, read, _ = answered(msgspec.json.encode(exchange.body))
        assert read <= WINDOW
        await exchange.begin(input_tokens=read)
        await exchange.text(text)
        await exchange.end()

    thread = Thread(new_id(), world.account_id)
    await thread.say("Hi, my name is Ada.")
    for number in range(1, TURNS):
        await thread.say(f"Thanks {number}")
    assert await thread.say("What is my name?") == "Your name is Ada."
    assert thread.model.longest <= WINDOW
    assert TURNS // 5 > thread.model.calls - len(thread.conversation.runs) > 0
    stored = Conversation(conversation_id=thread.conversation.conversation_id)
    for start in range(0, len(thread.stored), _BATCH):
        stored = await store.append(stored, thread.stored[start : start + _BATCH])
    loaded = await world.log.conversation(stored.conversation_id)
    assert replace(loaded, stored_bytes=0) == thread.conversation
    provider.will(demo)
    agent = await world.agent(AGENT.model, compaction=AGENT.compaction)
    async with world.worker():
        asked = await world.ask(
            agent, "Tell me my name", conversation_id=stored.conversation_id, new_conversation=False
        )
        completed = await asked.until(frames.Completed)
    assert completed.message.content == "Your name is Ada."
