"""A delivery from REQUESTS, to each of the outcomes that it can have.

It may come any number of times: the lease keeps one worker at it, the conversation's version fences all
others, and a run that has ended is only announced again.
"""

import asyncio
from collections.abc import Coroutine
from datetime import datetime

from opentelemetry.trace import SpanKind

from bus import Delivery
from contracts import subjects, wire
from contracts.messages import ChatRequested, DeadLettered
from conversations.errors import (
    PlaceLost,
    StoreUnavailable,
    UnreadableEvent,
    VersionConflict,
    WaitingLineFull,
)
from conversations.turn import Begin, Ended, GiveUp, Opening, Refusal, Resume, Wait
from orchestrator.assignment import Assignment
from orchestrator.endings import CANCELLED, announce_end, refuse, release_lease
from orchestrator.interruption import Interrupted
from orchestrator.opening import decided, gathered
from orchestrator.parts import Parts
from orchestrator.run import Attempt
from orchestrator.slots import give_back
from orchestrator.turn_loop import run_of
from orchestrator.unreadable import opening_unread
from orchestrator.waiting import leave_line, my_turn, place_in_line
from runtime import failpoints, logs, telemetry
from runtime.postgres import DatabaseUnavailable

_BUSY = "Another message of this conversation is being answered."
_FULL = "Too many messages wait for this conversation, or for others of the account."
_NO_SLOT = "The account had no run to spare when the message's turn came."
_LOST_SECONDS = 2.0
_LEASED_SECONDS = (1.0, 1.0, 2.0, 2.0, 2.0)
_LEASED_LATER_SECONDS = 15.0
_AWAY_SECONDS = (1.0, 2.0, 5.0, 10.0)


class Inbox:
    """Handles deliveries; those that wait for their turn go on in tasks of their own."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._waiting: set[asyncio.Task[None]] = set()
        self._log = logs.get_logger("inbox")

    async def handle(self, delivery: Delivery) -> None:
        """Take one delivery to its end, or as far as the line before its conversation."""
        try:
            request = _decoded(delivery.data)
        except ValueError as error:
            await self._bury(delivery, str(error))
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
        ):
            await self._take_up(Assignment(request, delivery))

    async def _bury(self, delivery: Delivery, reason: str) -> None:
        self._log.error("request_undecodable", reason=reason)
        payload = delivery.data.decode("utf-8", "replace")
        await self._parts.bus.dead(
            DeadLettered(stream=subjects.REQUESTS, subject=delivery.subject, reason=reason, payload=payload)
        )
        await delivery.term()

    async def _take_up(self, assignment: Assignment) -> None:
        self._parts.assignments.add(assignment)
        await self._guarded(assignment, self._decide_and_settle(assignment))

    async def _decide_and_settle(self, assignment: Assignment) -> bool:
        opening: Opening
        try:
            if not await gathered(self._parts, assignment):
                await assignment.delivery.nak(_leased_delay(assignment.delivery.attempt))
                return True
            opening = await decided(self._parts, assignment)
        except UnreadableEvent as error:
            opening = await opening_unread(self._parts, assignment, error)
        if not isinstance(opening, Wait):
            if assignment.delivery.attempt > 1 or assignment.request.attempt > 1:
                await leave_line(self._parts, assignment)  # it may have waited at another worker
            await self._settle(assignment, opening)
            return True
        assignment.detach()
        task = asyncio.create_task(self._guarded(assignment, self._wait_and_settle(assignment)))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)
        return False

    async def _wait_and_settle(self, assignment: Assignment) -> bool:
        await self._settle(assignment, await self._opening_after_waiting(assignment))
        return True

    async def _opening_after_waiting(self, assignment: Assignment) -> Opening:
        try:
            async with place_in_line(self._parts, assignment):
                return await self._opening_in_line(assignment)
        except WaitingLineFull:
            return _busy(assignment, _FULL)
        except UnreadableEvent as error:
            opening = await opening_unread(self._parts, assignment, error)
            await leave_line(self._parts, assignment)
            return opening

    async def _opening_in_line(self, assignment: Assignment) -> Opening:
        try:
            while await assignment.interruption.allowed(lambda: my_turn(self._parts, assignment)):
                opening = await decided(self._parts, assignment)
                if not isinstance(opening, Wait):
                    return opening
                await give_back(self._parts, assignment)  # another run was faster
        except Interrupted as interrupted:
            if interrupted.reason != "cancelled":
                raise
            return Refusal(code="cancelled", message=CANCELLED)
        return _busy(assignment, _BUSY)

    async def _settle(self, assignment: Assignment, opening: Opening) -> None:
        match opening:
            case Refusal():
                await _still_held(assignment)
                self._log.info("request_refused", code=opening.code)
                # First: a refused request that came again might begin, and its caller asks anew meanwhile.
                await assignment.delivery.ack()
                await refuse(self._parts, assignment, opening.code, opening.message)
            case Ended():
                await announce_end(self._parts, assignment, opening.run)
            case GiveUp():
                await announce_end(
                    self._parts, assignment, run_of(assignment.conversation, assignment.trace_id)
                )
            case Begin() | Resume():
                await self._work(assignment)
            case Wait():
                raise AssertionError("waiting was over")
        failpoints.reach("orchestrator-before-ack")
        await assignment.delivery.ack()

    async def _work(self, assignment: Assignment) -> None:
        assert assignment.agent is not None, "decided with its agent"
        attempt = Attempt(self._parts, assignment, assignment.agent)
        self._log.info("run_started", attempt=attempt.run.attempt)
        request = assignment.request
        if attempt.run.attempt > 1:  # its slot may have ended with the worker that had it
            await self._parts.limiter.hold([(request.account_id, request.trace_id)])
        try:
            run = await attempt.go()
        except (Interrupted, VersionConflict, StoreUnavailable):
            raise
        except Exception:  # noqa: BLE001 - the outermost frame of a run, which is to end whatever happens
            self._log.exception("run_broke")
            run = await attempt.fail("internal_error", "Something went wrong here.")
        await announce_end(self._parts, assignment, run)
        self._log.info(
            "run_ended",
            state=run.state,
            code=run.code,
            rounds=len(run.rounds),
            tokens=run.usage.total,
            seconds=round(assignment.clock.seconds_since(run.requested_at), 3),
        )

    async def _guarded(self, assignment: Assignment, work: Coroutine[None, None, bool]) -> None:
        """Do `work`, which says whether that was all. What keeps this worker from it is put back, for another
        one or for later.
        """
        over = True
        try:
            over = await work
        except Interrupted as interrupted:
            later = 0.0 if interrupted.reason == "shutdown" else _LOST_SECONDS
            await self._put_back(assignment, interrupted.reason, later)
        except (VersionConflict, PlaceLost):
            await self._put_back(assignment, "lost", _LOST_SECONDS)
        except (StoreUnavailable, DatabaseUnavailable, UnreadableEvent) as error:
            await self._put_back(assignment, str(error), _away_delay(assignment.delivery.attempt))
        except Exception:  # noqa: BLE001 - the outermost frame of a request
            self._log.exception("request_broke")
            await self._put_back(assignment, "broke", _away_delay(assignment.delivery.attempt))
        finally:
            if over:
                self._parts.assignments.remove(assignment)

    async def _put_back(self, assignment: Assignment, reason: str, seconds: float) -> None:
        """Not another frame: whoever takes it next goes on from the log."""
        self._log.info("request_put_back", reason=reason)
        await release_lease(self._parts, assignment)
        await assignment.delivery.nak(seconds)


async def _still_held(assignment: Assignment) -> None:
    """Return when nobody else can have begun the request. Raises Interrupted where somebody may have."""
    if assignment.lease is None or not await assignment.lease.wait_until_live():
        raise Interrupted("lost")


def _busy(assignment: Assignment, message: str) -> Refusal:
    """Of a request whose turn did not come: without a run slot, it may not have been for the conversation."""
    if assignment.no_slot is not None:
        return Refusal(code=assignment.no_slot.code or "rate_limited", message=_NO_SLOT)
    return Refusal(code="conversation_busy", message=message)


def _decoded(data: bytes) -> ChatRequested:
    """Raises ValueError for what is no JSON, no request, or no time."""
    request = wire.decode_message(ChatRequested, data)
    for at in (request.requested_at, request.deadline):
        datetime.fromisoformat(at)
    return request


def _leased_delay(deliveries: int) -> float:
    """Seconds until a request is worth looking at whose lease is held: soon at first, as its holder may have
    died; then so that a run's ten minutes take fewer than the 50 deliveries that a message has.
    """
    return _LEASED_SECONDS[deliveries - 1] if deliveries <= len(_LEASED_SECONDS) else _LEASED_LATER_SECONDS


def _away_delay(deliveries: int) -> float:
    return _AWAY_SECONDS[min(deliveries, len(_AWAY_SECONDS)) - 1]
