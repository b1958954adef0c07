"""Recorded runs, chosen and done again by the orchestrators, some at a time."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from administration import Admin, agents
from administration.values import Agent
from bus import Bus, BusUnavailable
from contracts import subjects
from contracts.admin_errors import NotFound
from contracts.ids import is_uuid
from contracts.messages import WhatIf, WhatIfAnswered
from conversations.aggregate.conversation import Conversation, Run
from conversations.errors import UnreadableEvent
from conversations.event_store.log import Log
from conversations.queries.sampling import sample_conversations
from ops.admin.errors import RefusedError
from ops.replay.what_if_compare import Compared, compared
from ops.replay.what_if_prices import Prices

_SLACK_SECONDS = 10.0
_AGAIN_SECONDS = 1.0
_TRIES = 3


class WhatIfOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked: other than the agent's version, and of which runs.

    Without `conversations` it is `sample` of those that the agent answered in, picked by `seed`. `seconds`
    and `at_once` bound one run, and how many are under way.
    """

    agent_id: str
    version: int | None
    model: str | None
    system_prompt: str | None
    conversations: tuple[str, ...]
    sample: int
    seed: int
    seconds: float
    at_once: int
    prices: Prices | None
    diff: bool


class Chosen(msgspec.Struct, frozen=True):
    """One run that is to be done again."""

    conversation_id: str
    trace_id: str


class Replay:
    """Does chosen runs again, as one version of an agent."""

    def __init__(self, bus: Bus, log: Log, agent: Agent, wanted: WhatIfOptions) -> None:
        self._bus = bus
        self._log = log
        self._agent = agent
        self._wanted = wanted
        self._room = asyncio.Semaphore(wanted.at_once)
        self._heard = False

    async def all(self, chosen: Sequence[Chosen], on_done: Callable[[], None]) -> list[Compared]:
        """Every run, in the order of `chosen`. Raises BusUnavailable where no orchestrator ever answers."""
        tasks: list[asyncio.Task[Compared | None]] = []
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._one(each, on_done)) for each in chosen]
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [done for task in tasks if (done := task.result()) is not None]

    async def _one(self, chosen: Chosen, on_done: Callable[[], None]) -> Compared | None:
        """None where the conversation was erased meanwhile."""
        async with self._room:
            run = (await _read(self._log, chosen.conversation_id)).run(chosen.trace_id)
            answer = None if run is None else await self._asked(chosen)
        on_done()
        if run is None or answer is None:
            return None
        return compared(chosen.conversation_id, run, answer, self._wanted.prices, diff=self._wanted.diff)

    async def _asked(self, chosen: Chosen) -> WhatIfAnswered:
        """A worker that stops says so; another one is asked then."""
        question = WhatIf(
            account_id=self._agent.account_id,
            agent_id=self._agent.id,
            agent_version=self._agent.version,
            conversation_id=chosen.conversation_id,
            trace_id=chosen.trace_id,
            model=self._wanted.model,
            system_prompt=self._wanted.system_prompt,
            seconds=self._wanted.seconds,
        )
        answer = WhatIfAnswered(outcome="unavailable")
        for _ in range(_TRIES):
            answer = await self._answer(question)
            if answer.outcome != "unavailable":
                break
            await asyncio.sleep(_AGAIN_SECONDS)
        return answer

    async def _answer(self, question: WhatIf) -> WhatIfAnswered:
        try:
            answer = await self._bus.rpc.ask(
                subjects.WHAT_IF, question, WhatIfAnswered, timeout=question.seconds + _SLACK_SECONDS
            )
        except BusUnavailable as error:
            if not self._heard:
                raise
            return WhatIfAnswered(outcome="unavailable", detail=str(error))
        self._heard = True
        return answer


async def find_agent(admin: Admin, wanted: WhatIfOptions) -> Agent:
    """The version that is to answer. Raises RefusedError (exit code 2)."""
    try:
        return await agents.get(admin, wanted.agent_id, wanted.version)
    except NotFound as error:
        raise RefusedError(str(error), 2) from None


async def choose(admin: Admin, agent: Agent, wanted: WhatIfOptions) -> list[Chosen]:
    """The completed runs: of the named conversations, or the agent's own of a sample.

    Raises RefusedError (exit code 2) for a conversation that cannot be replayed, and where there is no run.
    """
    log = Log(admin.pool)
    if wanted.conversations:
        named = [await _named(log, agent, each) for each in dict.fromkeys(wanted.conversations)]
        chosen = [each for conversation in named for each in _runs(conversation)]
    else:
        ids = await sample_conversations(admin.pool, agent.account_id, agent.id, wanted.sample, wanted.seed)
        chosen = [each for one in ids for each in _runs(await _read(log, one), agent.id)]
    if not chosen:
        whose = "these conversations have" if wanted.conversations else f"agent {agent.id} has"
        raise RefusedError(f"{whose} no completed run that could be replayed", 2)
    return chosen


async def _named(log: Log, agent: Agent, conversation_id: str) -> Conversation:
    if not is_uuid(conversation_id.lower()):
        raise RefusedError(f"this is no conversation's id: {conversation_id}", 2)
    conversation = await _read(log, conversation_id.lower())
    if conversation.version == 0:
        raise RefusedError(f"no such conversation: {conversation_id}", 2)
    if conversation.erased:
        raise RefusedError(f"conversation {conversation_id} was deleted", 2)
    if conversation.account_id != agent.account_id:
        raise RefusedError(f"conversation {conversation_id} is another account's than the agent", 2)
    return conversation


async def _read(log: Log, conversation_id: str) -> Conversation:
    try:
        return await log.conversation(conversation_id)
    except UnreadableEvent as error:
        raise RefusedError(f"conversation {conversation_id} cannot be read: {error}") from None


def _runs(conversation: Conversation, agent_id: str | None = None) -> list[Chosen]:
    def is_chosen(run: Run) -> bool:
        return run.state == "completed" and agent_id in (None, run.agent_id)

    return [Chosen(conversation.conversation_id, run.trace_id) for run in conversation.runs if is_chosen(run)]
