"""Recorded runs, done again by the orchestrators, some at a time."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from administration import Admin, admin_agents
from administration.admin_values import Agent
from bus import Bus, BusUnavailable
from contracts import subjects
from contracts.admin_errors import NotFound
from contracts.messages import WhatIf, WhatIfAnswered
from conversations.event_store.log import Log
from ops.errors import RefusedError
from ops.replay.what_if_choosing import Choice, Chosen, read
from ops.replay.what_if_compare import Compared, compared
from ops.replay.what_if_prices import Prices

_SLACK_SECONDS = 10.0
_AGAIN_SECONDS = 1.0
_TRIES = 3


class WhatIfOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked: other than the agent's version, and of which runs.

    `seconds` and `at_once` bound one run, and how many are under way.
    """

    agent_id: str
    version: int | None
    model: str | None
    system_prompt: str | None
    choice: Choice
    seconds: float
    at_once: int
    prices: Prices | None
    diff: bool


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
            run = (await read(self._log, chosen.conversation_id)).run(chosen.trace_id)
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
        return await admin_agents.get(admin, wanted.agent_id, wanted.version)
    except NotFound as error:
        raise RefusedError(str(error), 2) from None
