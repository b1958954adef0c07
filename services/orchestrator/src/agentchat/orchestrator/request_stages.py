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

S = TypeVar("S", bound="ReceivedRequest")


class FoundContext(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a request was found with. It may be old: the version of the conversation says so at its append."""

    conversation: Conversation | UnreadableEvent
    first_in_line: bool
    agent: AgentConfig | None


class ReceivedRequest(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A request out of the queue, which other workers may have too. `interruption` is this delivery's own."""

    request: ChatRequested
    delivery: Delivery
    interruption: Interruption

    @property
    def trace_id(self) -> str:
        return self.request.trace_id

    def to_leased(self, lease: Lease, clock: RunClock, found: FoundContext) -> "LeasedRequest":
        """This worker has the lease, and has read what decides about the request.

        `clock` was started when the lease was had: whatever came between, it has gone on.
        """
        return LeasedRequest(
            request=self.request,
            delivery=self.delivery,
            interruption=self.interruption,
            lease=lease,
            clock=clock,
            found=found,
        )


class LeasedRequest(ReceivedRequest, frozen=True, kw_only=True, eq=False):
    """A request whose lease this worker has: it is to be answered here, or put back."""

    lease: Lease
    clock: RunClock
    found: FoundContext

    def to_released(self) -> ReceivedRequest:
        """Nothing is held for it any more but its delivery."""
        return ReceivedRequest(request=self.request, delivery=self.delivery, interruption=self.interruption)

    def to_waiting(self) -> "WaitingRequest":
        """Its caller was told to wait."""
        return WaitingRequest(**_get_leased_fields(self))

    def to_started(self, conversation: Conversation, agent: AgentConfig) -> "StartedAttempt":
        """Its run is in the log, with an attempt of this worker."""
        return StartedAttempt(**_get_leased_fields(self), conversation=conversation, agent=agent)

    def to_paused(self, channel: TraceChannel | None = None) -> "PausedRun":
        """Its run waits for a person, in the log."""
        return PausedRun(**_get_leased_fields(self), channel=channel)

    def to_ended(self, run: Run, channel: TraceChannel | None = None) -> "EndedRun":
        """Its run has ended in the log."""
        return EndedRun(**_get_leased_fields(self), run=run, channel=channel)


class WaitingRequest(LeasedRequest, frozen=True, kw_only=True, eq=False):
    """In line before its conversation, without a slot among the account's runs."""


class StartedAttempt(LeasedRequest, frozen=True, kw_only=True, eq=False):
    """An attempt at a run that the log has just begun: `conversation` as it is then."""

    conversation: Conversation
    agent: AgentConfig

    def to_running(self, channel: TraceChannel) -> "RunningAttempt":
        """The attempt is under way, and its frames go through `channel`."""
        return RunningAttempt(
            **_get_leased_fields(self), conversation=self.conversation, agent=self.agent, channel=channel
        )


class RunningAttempt(StartedAttempt, frozen=True, kw_only=True, eq=False):
    channel: TraceChannel


class EndedRun(LeasedRequest, frozen=True, kw_only=True, eq=False):
    """A run that has ended in the log, which is to be made known: by its `channel` if an attempt was made."""

    run: Run
    channel: TraceChannel | None


class PausedRun(LeasedRequest, frozen=True, kw_only=True, eq=False):
    """A run that waits in the log for a person to decide, which is to be made known as an end is."""

    channel: TraceChannel | None


def _get_leased_fields(stage: LeasedRequest) -> dict[str, Any]:
    return {name: getattr(stage, name) for name in LeasedRequest.__struct_fields__}


class Register:
    """What is in here can be interrupted; from `Taken` on it is also kept from other workers.

    A trace may be in here twice: a second delivery of its request is received before it is known that its
    lease is not to be had.
    """

    def __init__(self) -> None:
        self._stages: dict[str, dict[Interruption, ReceivedRequest]] = {}  # by trace
        self._empty = asyncio.Event()
        self._empty.set()

    def __iter__(self) -> Iterator[ReceivedRequest]:
        return iter([stage for stages in self._stages.values() for stage in stages.values()])

    @property
    def slots_used(self) -> int:
        """Requests in a slot of the queue; those that have waited in line are in none."""
        return sum(not stage.delivery.slot_freed for stage in self)

    def enter(self, stage: S) -> S:
        self._stages.setdefault(stage.trace_id, {})[stage.interruption] = stage
        self._empty.clear()
        return stage

    def stage_of(self, request: ReceivedRequest) -> ReceivedRequest:
        return self._stages[request.trace_id][request.interruption]

    def remove(self, request: ReceivedRequest) -> None:
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
            if not (waiting_only and isinstance(stage, RunningAttempt | EndedRun | PausedRun)):
                stage.interruption.interrupt(reason)

    def interrupt_lost(self, trace_ids: set[str]) -> None:
        for stage in [stage for trace_id in trace_ids for stage in self._get_stages(trace_id)]:
            if isinstance(stage, LeasedRequest):
                stage.interruption.interrupt("lost")

    def supersede(self, newer: LeasedRequest) -> None:
        """This worker has taken the lease of a run again, for another delivery than the one that had it."""
        for stage in self._get_stages(newer.trace_id):
            if isinstance(stage, LeasedRequest) and stage is not newer:
                stage.interruption.interrupt("lost")

    def interrupt_unrenewed(self) -> None:
        """What has not been renewed for so long is left to other workers."""
        for stage in self:
            if isinstance(stage, LeasedRequest) and stage.lease.is_given_up:
                stage.interruption.interrupt("lost")

    def cancel(self, asked: CancelRequested) -> None:
        for stage in self._get_stages(asked.trace_id):
            if stage.request.account_id == asked.account_id:
                stage.interruption.interrupt("cancelled")

    def _get_stages(self, trace_id: str) -> list[ReceivedRequest]:
        return list(self._stages.get(trace_id, {}).values())
