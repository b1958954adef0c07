"""What is known of a request, stage by stage: received, taken, opened, running, ended or paused.

Each is made once and stays as it is; a function that is given one may rely on all that it has.
"""

from typing import TypedDict

import msgspec

from bus import Delivery
from contracts.messages import ChatRequested
from conversations.aggregate.conversation import Conversation, Run
from conversations.errors import UnreadableEvent
from conversations.leases.leases import Lease
from directory.agents import AgentConfig
from orchestrator.run.channel import TraceChannel
from orchestrator.run.interruption import Interruption
from orchestrator.run.run_clock import RunClock


class FoundConversation(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a request was found with. It may be old: the version of the conversation says so at its append."""

    conversation: Conversation | UnreadableEvent
    first_in_line: bool
    agent: AgentConfig | None


class _TakenFields(TypedDict):
    request: ChatRequested
    delivery: Delivery
    interruption: Interruption
    lease: Lease
    clock: RunClock
    found: FoundConversation


class Received(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A request out of the queue, which other workers may have too. `interruption` is this delivery's own."""

    request: ChatRequested
    delivery: Delivery
    interruption: Interruption

    @property
    def trace_id(self) -> str:
        """The request's id in everything that is said about it."""
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
    """An attempt that readers hear of."""

    channel: TraceChannel


class EndedStage(Taken, frozen=True, kw_only=True, eq=False):
    """A run that has ended in the log, which is to be made known: by its `channel` if an attempt was made."""

    run: Run
    channel: TraceChannel | None


class PausedStage(Taken, frozen=True, kw_only=True, eq=False):
    """A run that waits in the log for a person to decide, which is to be made known as an end is."""

    channel: TraceChannel | None


def _taken(stage: Taken) -> _TakenFields:
    return {
        "request": stage.request,
        "delivery": stage.delivery,
        "interruption": stage.interruption,
        "lease": stage.lease,
        "clock": stage.clock,
        "found": stage.found,
    }
