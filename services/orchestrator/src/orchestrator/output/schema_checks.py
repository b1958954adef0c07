"""Replies checked against agents' schemas, in processes next to this one, by turns of the accounts.

A schema is a stranger's program. An account has half of the processes at most, so another's check finds one
free; what its checks cost beyond its share of CPU time they wait for, and nobody else does.
"""

import asyncio
import signal
from collections import OrderedDict
from typing import Any

from directory.agents import AgentConfig
from orchestrator.output.schema_process import SchemaProcess
from orchestrator.output.schema_protocol import CPU_SECONDS, CheckRequest, CheckResult
from runtime import logs
from runtime.cpu_budget import CpuBudget
from runtime.fair_slots import FairSlots

_PROCESSES = 4
_SPARE = 3  # started ahead: a start takes longer than a check may wait
_CPU_SHARE = 0.5
_CPU_BURST_SECONDS = 5.0
_PATIENCE_SECONDS = 30.0
_REST_SECONDS = 30.0
_RESTING = 1000
_TOO_SLOW = "it could not be checked in time, as the schema takes too long"
_LATE = "it could not be checked in time"
_UNCHECKED = "it could not be checked"

_Place = tuple[str, int, str, str]


class SchemaChecks:
    """The processes, started when they are first needed.

    An agent version whose schema took too long is not checked again for a while: its account has better uses
    for its share.
    """

    def __init__(self) -> None:
        self._turns = FairSlots(_PROCESSES)
        self._budget = CpuBudget(_CPU_SHARE, _CPU_BURST_SECONDS)
        self._spare: list[SchemaProcess] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._asked = 0
        self._resting: OrderedDict[_Place, float] = OrderedDict()
        self._log = logs.get_logger("schema")

    async def problem(
        self, agent: AgentConfig, text: str, *, schema: dict[str, Any] | None = None, name: str = ""
    ) -> str:
        """What is wrong with `text` as JSON of the agent's schema, in words for callers; "" for nothing.

        Or by the `schema` of one of its tools, which has this `name`.
        """
        question = CheckRequest(agent.output_schema or {} if schema is None else schema, text)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await self._checked(agent, question, (*agent.key, name))
        except TimeoutError:
            self._log.warning("schema_check_late", account_id=agent.account_id, agent_id=agent.agent_id)
            return _LATE

    def warm(self) -> None:
        """Have processes started by the time when a reply is there."""
        self._spare = [process for process in self._spare if process.alive]
        spare = len(self._spare) + len(self._starting)
        for _ in range(min(_SPARE, _PROCESSES - self._asked) - spare):
            task = asyncio.create_task(self._start())
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def aclose(self) -> None:
        """End the processes."""
        await asyncio.gather(*self._starting)
        await asyncio.gather(*(process.end() for process in self._spare))

    async def _checked(self, agent: AgentConfig, question: CheckRequest, place: _Place) -> str:
        while True:
            await asyncio.sleep(self._budget.wait_seconds(agent.account_id))
            async with self._turns.turn(agent.account_id):
                if self._rests(place):
                    return _TOO_SLOW
                if self._budget.wait_seconds(agent.account_id) > 0:
                    continue  # others of the account have spent it meanwhile
                answer = await self._answer(question)
                self._budget.spend(agent.account_id, CPU_SECONDS if answer is None else answer.seconds)
            if answer is not None:
                return answer.problem
            self._log.warning("schema_too_slow", account_id=agent.account_id, agent_id=agent.agent_id)
            self._rest(place)
            return _TOO_SLOW

    async def _answer(self, question: CheckRequest) -> CheckResult | None:
        """None where the check takes more time than it may."""
        for _ in range(2):  # that a process has died otherwise is no fault of this schema's
            process = self._spare.pop() if self._spare else await SchemaProcess.start()
            self._asked += 1
            try:
                self.warm()
                answer = await process.ask(question)
                if answer is not None:
                    self._spare.append(process)
                    return answer
                ended_with = await process.ended()
                await self._start()  # at the cost of its own account's turn
            finally:
                self._asked -= 1
            if ended_with == -signal.SIGVTALRM:
                return None
        self._log.warning("schema_checker_died")
        return CheckResult(_UNCHECKED)

    async def _start(self) -> None:
        self._spare.append(await SchemaProcess.start())

    def _rests(self, place: _Place) -> bool:
        return self._resting.get(place, 0.0) > asyncio.get_running_loop().time()

    def _rest(self, place: _Place) -> None:
        self._resting[place] = asyncio.get_running_loop().time() + _REST_SECONDS
        if len(self._resting) > _RESTING:
            self._resting.popitem(last=False)
