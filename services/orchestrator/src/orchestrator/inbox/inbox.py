"""A delivery from REQUESTS, from its receipt to its acknowledgement.

It may come any number of times: the lease keeps one worker at it, the conversation's version fences all
others, and a run that has ended is only announced again.
"""

from datetime import datetime

from opentelemetry.trace import SpanKind

from bus import Delivery
from contracts import subjects, wire
from contracts.messages import ChatRequested, DeadLettered
from conversations.aggregate.turn import Rejected
from net_guard.addresses import looking_up_for
from orchestrator.inbox.retry import putting_back
from orchestrator.opening.at_once import begin_at_once
from orchestrator.opening.opening import open_run
from orchestrator.opening.taking import take
from orchestrator.orchestrator_services import Parts
from orchestrator.run.endings import announce_end, announce_pause, refuse
from orchestrator.run.interruption import Interruption
from orchestrator.run.run_attempt import run_to_end
from orchestrator.run.run_clock import RunClock
from orchestrator.stages import EndedStage, Opened, PausedStage, Received, Taken
from runtime import failpoints, logs, telemetry


class Inbox:
    """Handles deliveries."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._clock: RunClock | None = None  # of the run that began last

    async def handle(self, delivery: Delivery) -> None:
        """Take one delivery to its end. One that has to wait for its turn frees its slot."""
        try:
            request = _decoded(delivery.data)
        except ValueError as error:
            await self._dead_letter(delivery, str(error))
            return
        with (
            telemetry.tracer().start_as_current_span(
                "process chat.requests",
                context=telemetry.extract(delivery.headers),
                kind=SpanKind.CONSUMER,
                attributes={"messaging.system": "nats", "messaging.operation.type": "process"},
            ),
            logs.bound(
                trace_id=request.trace_id,
                conversation_id=request.conversation_id,
                account_id=request.account_id,
            ),
            looking_up_for(request.account_id),
            self._parts.loads.loading_for(request.account_id),
        ):
            received = Received(request=request, delivery=delivery, interruption=Interruption())
            async with putting_back(self._parts, received):
                opened = await begin_at_once(self._parts, received, self._clock)
                await self._end(opened or await take(self._parts, received))
                failpoints.reach("orchestrator-before-ack")
                await delivery.ack()

    async def _end(self, taken: Taken) -> None:
        """Have the request answered, and make that known."""
        self._clock = taken.clock
        outcome = taken if isinstance(taken, Opened) else await open_run(self._parts, taken)
        match outcome:
            case Rejected():
                await refuse(self._parts, taken, outcome)
            case Opened():
                await self._announce(await run_to_end(self._parts, outcome))
            case EndedStage() | PausedStage():
                await self._announce(outcome)

    async def _announce(self, outcome: EndedStage | PausedStage) -> None:
        if isinstance(outcome, EndedStage):
            await announce_end(self._parts, outcome)
        else:
            await announce_pause(self._parts, outcome)

    async def _dead_letter(self, delivery: Delivery, reason: str) -> None:
        logs.get_logger("inbox").error("request_undecodable", reason=reason)
        payload = delivery.data.decode("utf-8", "replace")
        await self._parts.bus.queues.dead_letter(
            DeadLettered(stream=subjects.REQUESTS, subject=delivery.subject, reason=reason, payload=payload)
        )
        await delivery.term()


def _decoded(data: bytes) -> ChatRequested:
    """Raises ValueError for what is no JSON, no request, or no time."""
    request = wire.decode_message(ChatRequested, data)
    for at in (request.requested_at, request.deadline):
        datetime.fromisoformat(at)
    return request
