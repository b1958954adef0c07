"""What is known of a request, stage by stage: received, taken, opened, running, ended or paused; and the
register of all that a worker has.

Each is made once and stays as it is; a function that is given one may rely on all that it has.
"""

import asyncio
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from agentchat.bus.work_queue import Delivery
from agentchat.contracts.messages import CancelRequested, ChatRequested
from agentchat.conversations.aggregate.conversation import Conversation, Run
from agentchat.conversations.errors import UnreadableEvent
from agentchat.conversations.leases.leases import Lease
from agentchat.directory.agent_config import AgentConfig
from agentchat.orchestrator.run.channel import TraceChannel
from agentchat.orchestrator.run.interruption import Interruption, Reason
from agentchat.orchestrator.run.run_clock import RunClock

S = TypeVar("S", bound="Received")


class FoundConversation(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a request was found with. It may be old: the version of the conversation says so at its append."""

    conversation: Conversation | UnreadableEvent
    first_in_line: bool
    agent: AgentConfig | None


class Received(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A request out of the queue, which other workers may have too. `interruption` is this delivery's own."""

    request: ChatRequested
    delivery: Delivery
    interruption: Interruption

    @property
    def trace_id(self) -> str:
        return self.request.trace_id

    def taken(self, lease: Lease, clock: RunClock, found: FoundConversation) -> "Taken":
        """This worker has the lease, and has read what decides about the request.

        `clock` was started when the lease was had: whatever came between, it has gone on.
        """
        return Taken(
            request=self.request,
            delivery=self.delivery,
            interruption=self.interruption,
            lease=lease,
            clock=clock,
            found=found,
        )


class Taken(Received, frozen=True, kw_only=True, eq=False):
    """A request whose lease this worker has: it is to be answered here, or put back."""

    lease: Lease
    clock: RunClock
    found: FoundConversation

    def released(self) -> Received:
        """Nothing is held for it any more but its delivery."""
        return Received(request=self.request, delivery=self.delivery, interruption=self.interruption)

    def waiting(self) -> "WaitingStage":
        """Its caller was told to wait."""
        return WaitingStage(**_taken(self))

    def opened(self, conversation: Conversation, agent: AgentConfig) -> "Opened":
        """Its run is in the log, with an attempt of this worker."""
        return Opened(**_taken(self), conversation=conversation, agent=agent)

    def paused(self, channel: TraceChannel | None = None) -> "PausedStage":
        """Its run waits for a person, in the log."""
        return PausedStage(**_taken(self), channel=channel)

    def ended(self, run: Run, channel: TraceChannel | None = None) -> "EndedStage":
        """Its run has ended in the log."""
        return EndedStage(**_taken(self), run=run, channel=channel)


class WaitingStage(Taken, frozen=True, kw_only=True, eq=False):
    """In line before its conversation, without a slot among the account's runs."""


class Opened(Taken, frozen=True, kw_only=True, eq=False):
    """An attempt at a run that the log has just begun: `conversation` as it is then."""

    conversation: Conversation
    agent: AgentConfig

    def running(self, channel: TraceChannel) -> "RunningStage":
        """The attempt is under way, and its frames go through `channel`."""
        return RunningStage(**_taken(self), conversation=self.conversation, agent=self.agent, channel=channel)


class RunningStage(Opened, frozen=True, kw_only=True, eq=False):
    channel: TraceChannel


class EndedStage(Taken, frozen=True, kw_only=True, eq=False):
    """A run that has ended in the log, which is to be made known: by its `channel` if an attempt was made."""

    run: Run
    channel: TraceChannel | None


class PausedStage(Taken, frozen=True, kw_only=True, eq=False):
    """A run that waits in the log for a person to decide, which is to be made known as an end is."""

    channel: TraceChannel | None


def _taken(stage: Taken) -> dict[str, Any]:
    return {name: getattr(stage, name) for name in Taken.__struct_fields__}


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
        self._stages.setdefault(stage.trace_id, {})[stage.interruption] = stage
        self._empty.clear()
        return stage

    def stage_of(self, request: Received) -> Received:
        return self._stages[request.trace_id][request.interruption]

    def remove(self, request: Received) -> None:
        del self._stages[request.trace_id][request.interruption]
        if not self._stages[request.trace_id]:
            del self._stages[request.trace_id]
        if not self._stages:
            self._empty.set()

    async def wait_until_none(self) -> None:
        await self._empty.wait()

    def interrupt(self, reason: Reason, *, waiting_only: bool = False) -> None:
        """Stop them all, or those that only wait for their turn."""
        for stage in self:
            if not (waiting_only and isinstance(stage, RunningStage | EndedStage | PausedStage)):
                stage.interruption.interrupt(reason)

    def lose(self, trace_ids: set[str]) -> None:
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
        for stage in self._of(asked.trace_id):
            if stage.request.account_id == asked.account_id:
                stage.interruption.interrupt("cancelled")

    def _of(self, trace_id: str) -> list[Received]:
        return list(self._stages.get(trace_id, {}).values())
