"""Validate JSON against agents' schemas, in separate processes, by turns of the accounts.

Schemas are untrusted. An account gets half of the processes at most, so that another account's check finds
one free; if its checks use more CPU time than its share, only its own later checks wait.
"""

import asyncio
from typing import Any

import msgspec

from agentchat.directory.agent_config import AgentConfig
from agentchat.orchestrator.output.json_validation import CPU_SECONDS, CheckRequest, CheckResult
from agentchat.runtime import logs
from agentchat.runtime.cpu_budget import CpuBudget
from agentchat.runtime.fair_slots import FairSlots
from agentchat.runtime.limited_process import LimitedProcess, ProcessEnded

_PROCESSES = 4
_CPU_SHARE = 0.5
_CPU_BURST_SECONDS = 5.0
_PATIENCE_SECONDS = 30.0
_MODULE = "agentchat.orchestrator.output.json_validation"
_TOO_SLOW = "it could not be checked in time, as the schema takes too long"
_LATE = "it could not be checked in time"
_UNCHECKED = "it could not be checked"


class SchemaChecks:
    """The processes, started on demand and reused."""

    def __init__(self) -> None:
        self._turns = FairSlots(_PROCESSES)
        self._budget = CpuBudget(_CPU_SHARE, _CPU_BURST_SECONDS)
        self._idle: list[LimitedProcess] = []
        self._log = logs.get_logger("schema")

    async def find_problem(
        self, agent: AgentConfig, text: str, *, schema: dict[str, Any] | None = None
    ) -> str:
        """Return what is wrong with `text` as JSON of the schema, for callers; "" if nothing is."""
        schema = agent.output_schema or {} if schema is None else schema
        return (await self.check(agent, text, schema)).problem

    async def check(self, agent: AgentConfig, text: str, schema: dict[str, Any]) -> CheckResult:
        """Validate `text`, and return the place and the reason of a problem."""
        request = CheckRequest(schema, text)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await self._check(agent, request)
        except TimeoutError:
            self._log.warning("schema_check_late", account_id=agent.account_id, agent_id=agent.agent_id)
            return CheckResult(_LATE, reason=_LATE)

    async def aclose(self) -> None:
        """End the processes."""
        await asyncio.gather(*(process.aclose() for process in self._idle))

    async def _check(self, agent: AgentConfig, request: CheckRequest) -> CheckResult:
        while True:
            await asyncio.sleep(self._budget.wait_seconds(agent.account_id))
            async with self._turns.turn(agent.account_id):
                if self._budget.wait_seconds(agent.account_id) > 0:
                    continue  # other checks of the account have used the budget meanwhile
                result = await self._run_check(request)
                self._budget.spend(agent.account_id, CPU_SECONDS if result is None else result.seconds)
            if result is not None:
                return result
            self._log.warning("schema_too_slow", account_id=agent.account_id, agent_id=agent.agent_id)
            return CheckResult(_TOO_SLOW, reason=_TOO_SLOW)

    async def _run_check(self, request: CheckRequest) -> CheckResult | None:
        """Run the check; None if it takes too long."""
        for _ in range(2):  # the process may have died for another reason
            process = (
                self._idle.pop()
                if self._idle
                else LimitedProcess(_MODULE, patience_seconds=_PATIENCE_SECONDS)
            )
            try:
                answer = await process.ask(msgspec.json.encode(request), CPU_SECONDS)
            except ProcessEnded as ended:
                if ended.timed_out:
                    return None
            else:
                self._idle.append(process)
                return msgspec.json.decode(answer, type=CheckResult)
        self._log.warning("schema_process_died")
        return CheckResult(_UNCHECKED, reason=_UNCHECKED)
