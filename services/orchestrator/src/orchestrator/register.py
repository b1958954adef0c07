"""All requests that this worker has in hand, each at its newest stage."""

import asyncio
from collections.abc import Iterator
from typing import TypeVar

from contracts.messages import CancelRequested
from orchestrator.run.interruption import Interruption, Reason
from orchestrator.stages import EndedStage, PausedStage, Received, RunningStage, Taken

S = TypeVar("S", bound=Received)


class Register:
    """What is in here can be interrupted; from `Taken` on it is also kept from other workers.

    A trace may be in here twice: a second delivery of its request is received before it is known that its
    lease is not to be had.
    """

    def __init__(self) -> None:
        self._stages: dict[str, dict[Interruption, Received]] = {}  # by trace
        self._empty = asyncio.Event()
        self._empty.set()

    def __iter__(self) -> Iterator[Received]:
        return iter([stage for stages in self._stages.values() for stage in stages.values()])

    @property
    def slots_used(self) -> int:
        """Requests in a slot of the queue; those that have waited in line are in none."""
        return sum(not stage.delivery.slot_freed for stage in self)

    def enter(self, stage: S) -> S:
        """From now on the request is at this stage."""
        self._stages.setdefault(stage.trace_id, {})[stage.interruption] = stage
        self._empty.clear()
        return stage

    def stage_of(self, request: Received) -> Received:
        """The newest stage of a request that is in here."""
        return self._stages[request.trace_id][request.interruption]

    def remove(self, request: Received) -> None:
        """It is settled, or put back."""
        del self._stages[request.trace_id][request.interruption]
        if not self._stages[request.trace_id]:
            del self._stages[request.trace_id]
        if not self._stages:
            self._empty.set()

    async def wait_until_none(self) -> None:
        """Return when all are settled or put back."""
        await self._empty.wait()

    def interrupt(self, reason: Reason, *, waiting_only: bool = False) -> None:
        """Stop them all, or those that only wait for their turn."""
        for stage in self:
            if not (waiting_only and isinstance(stage, RunningStage | EndedStage | PausedStage)):
                stage.interruption.interrupt(reason)

    def lose(self, trace_ids: set[str]) -> None:
        """Other workers hold these now."""
        for stage in [stage for trace_id in trace_ids for stage in self._of(trace_id)]:
            if isinstance(stage, Taken):
                stage.interruption.interrupt("lost")

    def supersede(self, newer: Taken) -> None:
        """This worker has taken the lease of a run again, for another delivery than the one that had it."""
        for stage in self._of(newer.trace_id):
            if isinstance(stage, Taken) and stage is not newer:
                stage.interruption.interrupt("lost")

    def give_up(self) -> None:
        """What has not been renewed for so long is left to other workers."""
        for stage in self:
            if isinstance(stage, Taken) and stage.lease.is_given_up:
                stage.interruption.interrupt("lost")

    def cancel(self, asked: CancelRequested) -> None:
        """The account asks for the end of one of its runs."""
        for stage in self._of(asked.trace_id):
            if stage.request.account_id == asked.account_id:
                stage.interruption.interrupt("cancelled")

    def _of(self, trace_id: str) -> list[Received]:
        """All that is in here of one trace."""
        return list(self._stages.get(trace_id, {}).values())
