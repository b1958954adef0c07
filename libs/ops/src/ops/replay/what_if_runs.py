"""The recorded runs that a what-if takes, and how the orchestrators do them again, some at a time."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from administration import Admin, admin_agents
from administration.admin_values import Agent
from bus import Bus, BusUnavailable
from contracts import subjects
from contracts.admin_errors import NotFound
from contracts.ids import is_uuid
from contracts.messages import WhatIf, WhatIfAnswered
from conversations.aggregate.conversation import Conversation
from conversations.errors import UnreadableEvent
from conversations.event_store.log import Log
from conversations.queries.sampling import RunFilter, sample_conversations
from conversations.queries.time_travel import log_time
from ops.errors import RefusedError, SetupError
from ops.replay.what_if_compare import ComparedRun, Prices, compared

ENDS = ("completed", "failed", "cancelled")
MOST = 10_000
"""Conversations of one replay."""
_SLACK_SECONDS = 10.0
_AGAIN_SECONDS = 1.0
_TRIES = 3


class WhatIfOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to replay, and with which agent version, model or prompt.

    The runs are those of `conversations`, or of `sample` of all those with such a run, picked by `seed`.
    `seconds` bounds one run, `at_once` the number of active ones.
    """

    agent_id: str
    version: int | None
    model: str | None
    system_prompt: str | None
    conversations: tuple[str, ...]
    sample: int
    seed: int
    runs: RunFilter
    seconds: float
    at_once: int
    prices: Prices | None
    diff: bool


def time_of(option: str, text: str | None) -> str | None:
    """A time as the log has it, of one in ISO 8601; without an offset it is UTC. Raises SetupError."""
    if text is None:
        return None
    try:
        return log_time(text)
    except ValueError:
        raise SetupError(f"{option}: {text!r} is no time in ISO 8601, such as 2026-11-21T09:30:00Z") from None


def tags_of(given: list[str]) -> dict[str, str]:
    """`KEY=VALUE` each. Raises SetupError."""
    found: dict[str, str] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise SetupError(f"--tag: {each!r} is not KEY=VALUE")
        found[key] = value
    return found


def ends_of(given: list[str]) -> tuple[str, ...]:
    """How runs ended. Raises SetupError."""
    if unknown := [each for each in given if each not in ENDS]:
        raise SetupError(f"--end: {unknown[0]!r} is none of {', '.join(ENDS)}")
    return tuple(given) or ("completed",)


async def choose(admin: Admin, agent: Agent, wanted: WhatIfOptions) -> list[tuple[str, str]]:
    """The runs, by conversation and trace. Without names and an agent: those that the agent answered.

    Raises RefusedError (exit code 2) for a conversation that cannot be replayed, and where there is no run.
    """
    log, runs = Log(admin.pool), wanted.runs
    if wanted.conversations:
        found = [await _named(log, agent, each) for each in dict.fromkeys(wanted.conversations)]
    else:
        if runs.agent_id is None:
            runs = msgspec.structs.replace(runs, agent_id=agent.id)
        most = wanted.sample or MOST
        ids = await sample_conversations(admin.pool, agent.account_id, runs, most, wanted.seed)
        found = [await read(log, each) for each in ids]
    chosen = [
        (each.conversation_id, run.trace_id)
        for each in found
        if each.metadata.items() >= runs.metadata.items()
        for run in each.runs
        if runs.takes(run)
    ]
    if not chosen:
        whose = "these conversations have" if wanted.conversations else f"agent {runs.agent_id} has"
        raise RefusedError(f"{whose} no such run that could be replayed", 2)
    return chosen


async def read(log: Log, conversation_id: str) -> Conversation:
    """A conversation. Raises RefusedError."""
    try:
        return await log.conversation(conversation_id)
    except UnreadableEvent as error:
        raise RefusedError(f"conversation {conversation_id} cannot be read: {error}") from None


async def _named(log: Log, agent: Agent, conversation_id: str) -> Conversation:
    if not is_uuid(conversation_id.lower()):
        raise RefusedError(f"this is no conversation's id: {conversation_id}", 2)
    conversation = await read(log, conversation_id.lower())
    if conversation.version == 0:
        raise RefusedError(f"no such conversation: {conversation_id}", 2)
    if conversation.erased:
        raise RefusedError(f"conversation {conversation_id} was deleted", 2)
    if conversation.account_id != agent.account_id:
        raise RefusedError(f"conversation {conversation_id} is another account's than the agent", 2)
    return conversation


class WhatIfReplay:
    """Runs the chosen runs again with one version of an agent."""

    def __init__(self, bus: Bus, log: Log, agent: Agent, wanted: WhatIfOptions) -> None:
        self._bus = bus
        self._log = log
        self._agent = agent
        self._wanted = wanted
        self._room = asyncio.Semaphore(wanted.at_once)
        self._answered = False

    async def all(self, chosen: Sequence[tuple[str, str]], on_done: Callable[[], None]) -> list[ComparedRun]:
        """Every run, in the order of `chosen`. Raises BusUnavailable where no orchestrator ever answers."""
        tasks: list[asyncio.Task[ComparedRun | None]] = []
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._one(*each, on_done)) for each in chosen]
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [done for task in tasks if (done := task.result()) is not None]

    async def _one(
        self, conversation_id: str, trace_id: str, on_done: Callable[[], None]
    ) -> ComparedRun | None:
        """None where the conversation was erased meanwhile."""
        async with self._room:
            run = (await read(self._log, conversation_id)).run(trace_id)
            answer = None if run is None else await self._asked(conversation_id, trace_id)
        on_done()
        if run is None or answer is None:
            return None
        return compared(conversation_id, run, answer, self._wanted.prices, diff=self._wanted.diff)

    async def _asked(self, conversation_id: str, trace_id: str) -> WhatIfAnswered:
        """A worker that is stopping answers `unavailable`; then another one is asked."""
        question = WhatIf(
            account_id=self._agent.account_id,
            agent_id=self._agent.id,
            agent_version=self._agent.version,
            conversation_id=conversation_id,
            trace_id=trace_id,
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
            if not self._answered:
                raise
            return WhatIfAnswered(outcome="unavailable", detail=str(error))
        self._answered = True
        return answer


async def find_agent(admin: Admin, wanted: WhatIfOptions) -> Agent:
    """The version that answers. Raises RefusedError (exit code 2)."""
    try:
        return await admin_agents.get(admin, wanted.agent_id, wanted.version)
    except NotFound as error:
        raise RefusedError(str(error), 2) from None
