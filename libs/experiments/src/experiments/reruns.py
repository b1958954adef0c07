"""Recorded runs done again by the orchestrators, one for each question."""

import asyncio

from bus.bus import Bus
from bus.errors import BusUnavailable
from contracts import subjects
from contracts.replay_messages import WhatIf, WhatIfAnswered

_SLACK_SECONDS = 10.0
_AGAIN_SECONDS = 1.0
_TRIES = 3


class Reruns:
    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._answered = False

    async def answer(self, question: WhatIf) -> WhatIfAnswered:
        """What a worker answers. One that is stopping answers `unavailable`; then another one is asked.

        Raises BusUnavailable where no orchestrator has ever answered.
        """
        answer = WhatIfAnswered(outcome="unavailable")
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(_AGAIN_SECONDS)
            answer = await self._once(question)
            if answer.outcome != "unavailable":
                break
        return answer

    async def _once(self, question: WhatIf) -> WhatIfAnswered:
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
