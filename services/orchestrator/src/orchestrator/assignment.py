"""A request that this worker holds the lease of, and all those that it holds."""

import asyncio
import copy
from collections.abc import Iterator

from bus import Delivery
from contracts.messages import CancelRequested, ChatRequested
from conversations.conversation import Conversation
from conversations.leases import Lease
from directory.agents import AgentConfig
from limits import Admission
from orchestrator.channel import TraceChannel
from orchestrator.clock import RunClock
from orchestrator.interruption import Interruption, Reason


class Assignment:
    """One request in this worker's hands, from its lease to its settled delivery.

    `no_slot` is why it has no place among the account's runs, where it was refused one.
    """

    def __init__(self, request: ChatRequested, delivery: Delivery) -> None:
        self.request = request
        self.delivery = delivery
        self.interruption = Interruption()
        self.clock: RunClock
        self.conversation = Conversation(conversation_id=request.conversation_id)
        self.agent: AgentConfig | None = None
        self.channel: TraceChannel | None = None
        self.lease: Lease | None = None
        self.first_in_line = True
        self.queued = False
        self.detached = False
        self.holds_slot = True
        self.no_slot: Admission | None = None

    @property
    def trace_id(self) -> str:
        """The request's id in everything that is said about it."""
        return self.request.trace_id

    def detach(self) -> None:
        """Keep the delivery past the end of its handler, whose slot is free then; `heartbeat` renews it."""
        mine = copy.copy(self.delivery)
        self.delivery.settled = True
        self.delivery = mine
        self.detached = True


class Assignments:
    """What is in here is kept from other workers, and can be interrupted.

    A trace may be in here twice for a moment: a copy of its request, which will not get the lease.
    """

    def __init__(self) -> None:
        self._held: set[Assignment] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    def __iter__(self) -> Iterator[Assignment]:
        return iter(tuple(self._held))

    @property
    def slots_used(self) -> int:
        """Those that wait in line use none."""
        return sum(not assignment.detached for assignment in self)

    def add(self, assignment: Assignment) -> None:
        """From now on it can be interrupted."""
        self._held.add(assignment)
        self._empty.clear()

    def remove(self, assignment: Assignment) -> None:
        """It is settled, or put back."""
        self._held.discard(assignment)
        if not self._held:
            self._empty.set()

    async def wait_until_none(self) -> None:
        """Return when all are settled or put back."""
        await self._empty.wait()

    def interrupt(self, reason: Reason, *, waiting_only: bool = False) -> None:
        """Stop them all, or those that only wait for their turn."""
        for assignment in self:
            if assignment.channel is None or not waiting_only:
                assignment.interruption.interrupt(reason)

    def lose(self, trace_ids: set[str]) -> None:
        """Other workers hold these now."""
        for assignment in self:
            if assignment.trace_id in trace_ids and assignment.lease is not None:
                assignment.interruption.interrupt("lost")

    def supersede(self, newer: Assignment) -> None:
        """This worker has taken the lease of a run anew, for another delivery than the one that had it."""
        for assignment in self:
            if (
                assignment.trace_id == newer.trace_id
                and assignment is not newer
                and assignment.lease is not None
            ):
                assignment.interruption.interrupt("lost")

    def give_up(self) -> None:
        """What has not been renewed for so long is left to other workers."""
        for assignment in self:
            if assignment.lease is not None and assignment.lease.is_given_up:
                assignment.interruption.interrupt("lost")

    def cancel(self, asked: CancelRequested) -> None:
        """The account asks for the end of one of its runs."""
        for assignment in self:
            request = assignment.request
            if (request.trace_id, request.account_id) == (asked.trace_id, asked.account_id):
                assignment.interruption.interrupt("cancelled")
