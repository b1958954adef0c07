"""Stages of a request, and the register of all requests that a worker holds.

received → leased → (waiting) → started → running. Each stage is immutable; a function that takes a stage may
rely on all of its fields.
"""

import asyncio
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from agentchat.bus.queue_consumer import QueueDelivery
from agentchat.contracts.messages import CancelRequested, ChatRequested
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.errors import UnreadableEvent
from agentchat.conversations.leases.leases import Lease
from agentchat.directory.agent_config import AgentConfig
from agentchat.orchestrator.run.channel import TraceChannel
from agentchat.orchestrator.run.interruption import Interruption, Reason
from agentchat.orchestrator.run.run_clock import RunClock

S = TypeVar("S", bound="ReceivedRequest")


class FoundContext(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The conversation, place in line and agent that were loaded with a request.

    They may be stale: the append verifies the conversation's version.
    """

    conversation: Conversation | UnreadableEvent
    first_in_line: bool
    agent: AgentConfig | None


class ReceivedRequest(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A request from the queue. Other workers may have received it too.

    `interruption` belongs to this delivery.
    """

    request: ChatRequested
    delivery: QueueDelivery
    interruption: Interruption

    @property
    def trace_id(self) -> str:
        """The trace of the request."""
        return self.request.trace_id

    def to_leased(self, lease: Lease, clock: RunClock, found: FoundContext) -> "LeasedRequest":
        """Return the request with its lease and what was loaded for it.

        `clock` was started when the lease was taken, so it includes any delay since.
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
    """A request whose lease this worker holds: it answers the request or puts it back."""

    lease: Lease
    clock: RunClock
    found: FoundContext

    def to_released(self) -> ReceivedRequest:
        """Return the request without its lease: only the delivery is left."""
        return ReceivedRequest(request=self.request, delivery=self.delivery, interruption=self.interruption)

    def to_waiting(self) -> "WaitingRequest":
        """Return the request as one whose caller was told to wait."""
        return WaitingRequest(**_get_leased_fields(self))

    def to_started(self, conversation: Conversation, agent: AgentConfig) -> "StartedAttempt":
        """Return the request with its run, of which the log has an attempt by this worker."""
        return StartedAttempt(**_get_leased_fields(self), conversation=conversation, agent=agent)


class WaitingRequest(LeasedRequest, frozen=True, kw_only=True, eq=False):
    """A request in line for its conversation. It holds none of its account's slots."""


class StartedAttempt(LeasedRequest, frozen=True, kw_only=True, eq=False):
    """An attempt that the log has just recorded, with the conversation as of then."""

    conversation: Conversation
    agent: AgentConfig

    def to_running(self, channel: TraceChannel) -> "RunningAttempt":
        """Return the attempt with the channel that its frames go through."""
        return RunningAttempt(
            **_get_leased_fields(self), conversation=self.conversation, agent=self.agent, channel=channel
        )


class RunningAttempt(StartedAttempt, frozen=True, kw_only=True, eq=False):
    """An attempt under way, with the channel of its frames."""

    channel: TraceChannel


def _get_leased_fields(stage: LeasedRequest) -> dict[str, Any]:
    return {name: getattr(stage, name) for name in LeasedRequest.__struct_fields__}


class Register:
    """The requests of this worker, each of which can be interrupted.

    A trace may be registered twice: a second delivery of its request is received before its lease is refused.
    """

    def __init__(self) -> None:
        self._stages: dict[str, dict[Interruption, ReceivedRequest]] = {}  # by trace
        self._empty = asyncio.Event()
        self._empty.set()

    def __iter__(self) -> Iterator[ReceivedRequest]:
        return iter([stage for stages in self._stages.values() for stage in stages.values()])

    @property
    def slots_used(self) -> int:
        """Count the requests in a slot of the queue. A request that has waited in line holds none."""
        return sum(not stage.delivery.slot_freed for stage in self)

    def enter(self, stage: S) -> S:
        """Add a request, or replace it by its next stage."""
        self._stages.setdefault(stage.trace_id, {})[stage.interruption] = stage
        self._empty.clear()
        return stage

    def stage_of(self, request: ReceivedRequest) -> ReceivedRequest:
        """Return the current stage of a request."""
        return self._stages[request.trace_id][request.interruption]

    def remove(self, request: ReceivedRequest) -> None:
        """Remove a request."""
        del self._stages[request.trace_id][request.interruption]
        if not self._stages[request.trace_id]:
            del self._stages[request.trace_id]
        if not self._stages:
            self._empty.set()

    async def wait_until_none(self) -> None:
        """Wait until no request is left."""
        await self._empty.wait()

    def interrupt(self, reason: Reason, *, waiting_only: bool = False) -> None:
        """Interrupt all requests, or with `waiting_only` those whose attempt is not under way."""
        for stage in self:
            if not (waiting_only and isinstance(stage, RunningAttempt)):
                stage.interruption.interrupt(reason)

    def interrupt_lost(self, trace_ids: set[str]) -> None:
        """Interrupt the runs whose leases were lost."""
        for stage in [stage for trace_id in trace_ids for stage in self._get_stages(trace_id)]:
            if isinstance(stage, LeasedRequest):
                stage.interruption.interrupt("lost")

    def supersede(self, newer: LeasedRequest) -> None:
        """Interrupt an older delivery of a run whose lease this worker has taken again."""
        for stage in self._get_stages(newer.trace_id):
            if isinstance(stage, LeasedRequest) and stage is not newer:
                stage.interruption.interrupt("lost")

    def interrupt_unrenewed(self) -> None:
        """Interrupt the runs whose lease was not renewed for so long that it counts as lost."""
        for stage in self:
            if isinstance(stage, LeasedRequest) and stage.lease.is_given_up:
                stage.interruption.interrupt("lost")

    def cancel(self, asked: CancelRequested) -> None:
        """Interrupt the runs of a cancellation, which `gateway.api.cancel_run` has requested."""
        for stage in self._get_stages(asked.trace_id):
            if stage.request.account_id == asked.account_id:
                stage.interruption.interrupt("cancelled")

    def _get_stages(self, trace_id: str) -> list[ReceivedRequest]:
        return list(self._stages.get(trace_id, {}).values())
