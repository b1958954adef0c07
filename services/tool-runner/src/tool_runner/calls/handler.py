"""The work queue TOOLS: a delivery becomes a call, and its result is published before it is acknowledged.

A call is acknowledged after its result was published, so that it comes again when its runner has died. One
that may be repeated is then run again. Any other has a row in the journal from before it ran, and is not.
"""

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import Hashable, Sequence
from functools import partial

from mcp_types import CallToolResult
from msgspec.structs import replace

from bus import Bus, BusUnavailable, Delivery
from contracts import messages, subjects, tool_messages, wire
from contracts.timings import TOOL_ANSWER_SECONDS, TOOL_MOST_SECONDS, TOOL_TURN_SECONDS
from journal import Execution, Journal
from runtime import failpoints, genai, logs, metrics, telemetry
from runtime.fair_slots import FairSlots, SlotsClosed
from runtime.postgres import DatabaseUnavailable
from tool_runner.calls.call_output import finished_call
from tool_runner.calls.call_progress import earlier_news, progress_told
from tool_runner.calls.executor import Executor
from tool_runner.faults import ToolFailed, ToolFault
from tool_runner.servers.elicitation import InputRequired
from tool_runner.servers.pool import ToolServer
from tool_runner.time_limit import DatabaseClock, TimeLimit, moment

_PUBLISH_SECONDS = 30.0
_PUBLISH_AGAIN_SECONDS = 0.25
HELD_PER_SLOT = 8
"""Messages that this process has in hand for each slot: they wait here for turns of their accounts."""
_WAITED_SECONDS = 0.1
# What an account has beyond its share of the messages in hand goes back to the queue, so many times.
_PUT_BACK_SECONDS = (0.5, 1.0, 2.0, 4.0)
_LOOK_AGAIN_SECONDS = 5.0
WINDOW_SECONDS = 60.0
ACCOUNT_BYTES = 128 * 1024 * 1024
"""In a window, by one tool-runner: an eighth of RESULTS (bus/streams.py)."""


class Slots:
    """The `slots` of this process. An account gets half of them at most, and one server half of that.

    So servers that do not answer hold up neither another account nor, as long as two are sound, their own.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._accounts = FairSlots(slots)
        self._servers: dict[str, FairSlots] = {}

    async def take(self, account_id: str, server: Hashable) -> None:
        """Wait for a place, and give it back with `release`. Raises SlotsClosed."""
        servers = self._servers.setdefault(account_id, FairSlots(max(1, self._slots // 2)))
        try:
            await servers.take(server)
            try:
                await self._accounts.take(account_id)
            except BaseException:
                servers.release(server)
                raise
        finally:
            self._forget(account_id)

    def release(self, account_id: str, server: Hashable) -> None:
        self._accounts.release(account_id)
        self._servers[account_id].release(server)
        self._forget(account_id)

    def close(self) -> None:
        self._accounts.close()
        for servers in self._servers.values():
            servers.close()

    def _forget(self, account_id: str) -> None:
        servers = self._servers.get(account_id)
        if servers is not None and servers.idle:  # `close` ends many waits, of which the first one forgets
            del self._servers[account_id]


class ResultQuota:
    """Bytes of results by account, over the last minute, so that no account fills RESULTS for all others.

    A large result leaves RESULTS when the log has it: at the end of its round, after some 35 s at most. So
    what an account published in the last minute is about what it holds there. Times are the caller's, in
    seconds.
    """

    def __init__(self, account_bytes: int = ACCOUNT_BYTES) -> None:
        self._account_bytes = account_bytes
        self._taken: deque[tuple[float, str, int]] = deque()
        self._sums: Counter[str] = Counter()

    def take(self, account_id: str, size: int, now: float) -> bool:
        """Count `size` bytes that the account publishes; False if that is more than it may."""
        while self._taken and self._taken[0][0] < now - WINDOW_SECONDS:
            _, account, bytes_before = self._taken.popleft()
            self._sums[account] -= bytes_before
            if not self._sums[account]:
                del self._sums[account]
        if self._sums[account_id] + size > self._account_bytes:
            return False
        self._taken.append((now, account_id, size))
        self._sums[account_id] += size
        return True


class CallHandler:
    def __init__(
        self,
        bus: Bus,
        executor: Executor,
        journal: Journal,
        clock: DatabaseClock,
        quota: ResultQuota,
        slots: int,
    ) -> None:
        self._bus = bus
        self._executor = executor
        self._journal = journal
        self._clock = clock
        self._quota = quota
        self._held = FairSlots(slots * HELD_PER_SLOT)
        self._slots = Slots(slots)
        self._log = logs.get_logger("calls")

    def close(self) -> None:
        """Put back what waits for its turn; what runs continues."""
        self._slots.close()

    async def handle(self, delivery: Delivery) -> None:
        """Work off one message. Raises BusUnavailable, DatabaseUnavailable: it is then delivered again."""
        try:
            request = _decoded(delivery.data)
        except ValueError as error:
            await self._dead_letter(delivery, str(error))
            return
        attributes = {
            genai.OPERATION_NAME: genai.EXECUTE_TOOL,
            genai.TOOL_NAME: request.tool,
            genai.TOOL_CALL_ID: request.call_id,
            genai.TOOL_TYPE: "extension",
            genai.AGENT_ID: request.agent_id,
        }
        with (
            logs.bound(trace_id=request.trace_id, account_id=request.account_id),
            telemetry.span(
                f"execute_tool {request.tool}",
                context=telemetry.extract(delivery.headers),
                attributes=attributes,
            ),
        ):
            if not self._held.try_take(request.account_id):
                await self._put_back(delivery, request)
                return
            try:
                await self._work(delivery, request)
            finally:
                self._held.release(request.account_id)

    async def _work(self, delivery: Delivery, request: tool_messages.ToolRequested) -> None:
        if delivery.attempt > 1:
            earlier = await earlier_news(self._bus.traces, request)
            if earlier.finished:
                return
            request = replace(request, deadline=earlier.deadline or request.deadline)
        failpoints.reach("tool-runner-received")
        began = time.perf_counter()
        outcome: CallToolResult | InputRequired | ToolFault | None
        server: ToolServer | None = None
        try:
            left = await self._seconds_left(request)
            server = await self._executor.server(request)
            with server.in_use():
                outcome = await self._in_turn(delivery, request, server, left)
        except ToolFailed as failed:
            outcome = await self._unless_begun(delivery, request, failed.fault)
        if outcome is not None:
            # Read now: a token may have been obtained for this very call.
            secrets: Sequence[str] = () if server is None else server.secrets
            finished = finished_call(request, outcome, began, secrets)
            size = len(wire.encode(finished))
            if not self._quota.take(request.account_id, size, time.monotonic()):
                finished = finished_call(request, ToolFault("crowded"), began)
            failpoints.reach("tool-runner-called")
            await self._publish(finished)
            failpoints.reach("tool-runner-published")

    async def _seconds_left(self, request: tool_messages.ToolRequested) -> float:
        """How long somebody waits for the call. Raises ToolFailed if nobody does any more.

        Also BusUnavailable, DatabaseUnavailable.
        """
        left = await self._clock.seconds_until(request.deadline) if request.deadline else math.inf
        if left <= 0:
            raise ToolFailed("late")
        if await self._bus.traces.is_cancelled(request.trace_id):
            raise ToolFailed("cancelled")
        return left

    async def _in_turn(
        self, delivery: Delivery, request: tool_messages.ToolRequested, server: ToolServer, left: float
    ) -> CallToolResult | InputRequired | ToolFault | None:
        """What came of the call, once it is its account's turn; None if another process reports it.

        Raises ToolFailed where it did not begin here.
        """
        loop = asyncio.get_running_loop()
        came = loop.time()
        ends = came + left
        try:
            async with asyncio.timeout_at(min(came + TOOL_TURN_SECONDS, ends)):
                await self._slots.take(request.account_id, server)
        except SlotsClosed:
            await delivery.nak()
            return None
        except TimeoutError as error:
            metrics.TOOLS_WAITED.labels(begun=False).inc()
            raise ToolFailed("busy", f"waited {loop.time() - came:.1f} s") from error
        try:
            if (waited := loop.time() - came) >= _WAITED_SECONDS:
                metrics.TOOLS_WAITED.labels(begun=True).inc()
                self._log.info("call_waited", call_id=request.call_id, ms=round(waited * 1000))
            limit = await self._limit(request, ends)
            async with progress_told(self._bus.traces, request, limit, ends):
                begin = partial(self._begin, delivery, request, limit.until)
                return await self._executor.outcome(server, request, limit, begin)
        except ToolFailed as failed:
            if failed.fault.kind != "stopped":
                raise
            await delivery.nak()
            return None
        finally:
            self._slots.release(request.account_id, server)

    async def _limit(self, request: tool_messages.ToolRequested, ends: float) -> TimeLimit:
        """How long the call may take from now on; `ends` is its deadline, on the loop's clock.

        Raises DatabaseUnavailable.
        """
        now = asyncio.get_running_loop().time()
        seconds = min(max(request.timeout_s, 0.1), TOOL_MOST_SECONDS)
        latest = now
        if request.deadline is not None and request.ends_by is not None:
            latest += await self._clock.seconds_until(request.ends_by)
        return TimeLimit(min(now + seconds, ends), seconds=seconds, latest=latest)

    async def _begin(self, delivery: Delivery, request: tool_messages.ToolRequested, until: float) -> bool:
        """Claim a call that must not run twice; False if its outcome is known, or somebody may be at it.

        Raises ToolFailed where it is not to be run: Postgres does not answer, its time is up, or it was begun
        before and nobody knows what came of it. Raises DatabaseUnavailable where it may have been begun.
        """
        loop = asyncio.get_running_loop()
        failpoints.reach("tool-runner-before-journal")
        try:
            execution = await self._journal.begin(
                request.trace_id,
                request.leg_id,
                deadline=None if request.deadline is None else moment(request.deadline),
                seconds=until - loop.time() + TOOL_ANSWER_SECONDS,
            )
        except DatabaseUnavailable as error:
            if delivery.attempt > 1:
                raise
            raise ToolFailed("not_started", str(error)) from error
        if execution is None or (execution.mine and loop.time() >= until):
            raise ToolFailed("late")
        if execution.mine:
            failpoints.reach("tool-runner-journaled")
            return True
        if await self._is_published_or_running(delivery, request, execution):
            return False
        raise ToolFailed("lost", f"begun by {execution.runner}")

    async def _unless_begun(
        self, delivery: Delivery, request: tool_messages.ToolRequested, fault: ToolFault
    ) -> ToolFault | None:
        """Why a call did not begin here; `lost` if it has begun before, and None if that is not to be
        reported.

        A runner that began it may have died or been paused since. Raises DatabaseUnavailable.
        """
        execution = await self._journal.find(request.trace_id, request.leg_id)
        if execution is None:
            return fault
        if await self._is_published_or_running(delivery, request, execution):
            return None
        return ToolFault("lost", f"begun by {execution.runner}", writing=True)

    async def _is_published_or_running(
        self, delivery: Delivery, request: tool_messages.ToolRequested, execution: Execution
    ) -> bool:
        """Whether a call that was begun before has its result, or may get it: then the call is put back."""
        self._log.warning("begun_before", call_id=request.call_id, runner=execution.runner)
        earlier = await earlier_news(self._bus.traces, request)
        if earlier.finished:
            return True
        seconds_left = execution.seconds_left
        if earlier.deadline is not None:
            seconds_left = max(seconds_left, await self._clock.seconds_until(earlier.deadline))
        if seconds_left > 0:
            await delivery.nak(min(seconds_left, _LOOK_AGAIN_SECONDS))
            return True
        return False

    async def _put_back(self, delivery: Delivery, request: tool_messages.ToolRequested) -> None:
        metrics.TOOLS_PUT_BACK.inc()
        seconds = next(iter(_PUT_BACK_SECONDS[delivery.attempt - 1 :]), math.inf)
        left = await self._clock.seconds_until(request.deadline) if request.deadline else TOOL_TURN_SECONDS
        if seconds < left:
            await delivery.nak(seconds)
        else:
            busy = ToolFault("busy", f"put back {delivery.attempt - 1} times")
            fault = await self._unless_begun(delivery, request, busy)
            if fault is not None:
                await self._publish(finished_call(request, fault, time.perf_counter()))

    async def _publish(self, finished: tool_messages.ToolFinished) -> None:
        """Publish a result, through a NATS outage too: what is not published here is lost."""
        give_up_at = time.monotonic() + _PUBLISH_SECONDS
        while True:
            try:
                await self._bus.traces.finish_tool(finished)
            except BusUnavailable:
                if self._executor.interrupted or time.monotonic() > give_up_at:
                    raise
                await asyncio.sleep(_PUBLISH_AGAIN_SECONDS)
            else:
                return

    async def _dead_letter(self, delivery: Delivery, reason: str) -> None:
        self._log.error("request_undecodable", reason=reason)
        payload = delivery.data.decode("utf-8", "replace")
        await self._bus.queues.dead_letter(
            messages.DeadLettered(
                stream=subjects.TOOLS, subject=delivery.subject, reason=reason, payload=payload
            )
        )
        await delivery.term()


def _decoded(data: bytes) -> tool_messages.ToolRequested:
    """Raises ValueError for what is no JSON, no request, or no time."""
    request = wire.decode_message(tool_messages.ToolRequested, data)
    if request.deadline is not None:
        moment(request.deadline)
    return request
