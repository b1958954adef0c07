"""Replay recorded runs on the orchestrators: a single question, or several at a time."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import subjects
from agentchat.contracts.replay_messages import WhatIf, WhatIfAnswered
from agentchat.conversations.event_store.event_log import Log
from agentchat.evals.compared_run import ComparedRun, compare_run
from agentchat.evals.run_choice import ChosenRun, load_conversation
from agentchat.runtime.prices import Prices

_SLACK_SECONDS = 10.0
_AGAIN_SECONDS = 1.0
_TRIES = 3


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """The version of an agent that answers. `model` and `system_prompt` replace its own if given."""

    account_id: str
    agent_id: str
    version: int
    model: str | None = None
    system_prompt: str | None = None


class Reruns:
    """Asks the orchestrators (`orchestrator.rpc.answer_what_if`)."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._answered = False

    async def answer(self, question: WhatIf) -> WhatIfAnswered:
        """Return a worker's answer. If a stopping worker answers `unavailable`, ask another one.

        Raises BusUnavailable if no orchestrator has ever answered.
        """
        answer = WhatIfAnswered(outcome="unavailable")
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(_AGAIN_SECONDS)
            answer = await self._ask(question)
            if answer.outcome != "unavailable":
                break
        return answer

    async def _ask(self, question: WhatIf) -> WhatIfAnswered:
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


async def replay(
    bus: Bus,
    log: Log,
    candidate: Candidate,
    chosen: Sequence[ChosenRun],
    *,
    prices: Prices,
    seconds: float,
    at_once: int,
    on_done: Callable[[], None],
) -> list[ComparedRun]:
    """Replay recorded runs of the log and compare them; runs that were erased meanwhile are left out.

    `seconds` bounds one run; `on_done` is called after each. Raises BusUnavailable if no orchestrator ever
    answers, Conflict for a conversation that cannot be read, DatabaseUnavailable.
    """
    reruns, room = Reruns(bus), asyncio.Semaphore(at_once)
    results: dict[str, ComparedRun] = {}

    async def answer(each: ChosenRun) -> None:
        async with room:
            run = (await load_conversation(log, each.conversation_id)).run(each.trace_id)
            if run is not None:
                question = WhatIf(
                    account_id=candidate.account_id,
                    agent_id=candidate.agent_id,
                    agent_version=candidate.version,
                    conversation_id=each.conversation_id,
                    trace_id=each.trace_id,
                    model=candidate.model,
                    system_prompt=candidate.system_prompt,
                    seconds=seconds,
                )
                answered = await reruns.answer(question)
                results[each.trace_id] = compare_run(each.conversation_id, run, answered, prices)
        on_done()

    try:
        async with asyncio.TaskGroup() as group:
            for each in chosen:
                group.create_task(answer(each))
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [results[each.trace_id] for each in chosen if each.trace_id in results]
