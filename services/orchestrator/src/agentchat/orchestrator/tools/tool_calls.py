"""Request the tool calls of a run together, and collect their results until the time is up.

A call whose result was lost is requested again only if its tool may run twice; a call that may or may not
have run is reported to the model as unknown. `_send_request` crosses to the tool-runner, whose results come
to `_take`.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from opentelemetry.trace import Span, SpanKind, use_span

from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.bus.subscription import Subscription
from agentchat.contracts import events, wire
from agentchat.contracts.text_checks import clean_text
from agentchat.contracts.timings import TOOL_ANSWER_SECONDS, TOOL_MOST_SECONDS, TOOL_SLACK_SECONDS
from agentchat.contracts.tool_messages import InputRequest, ToolFinished, ToolRequested
from agentchat.contracts.values import InputAsked, ToolSpec
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.rounds import Call
from agentchat.directory.agent_config import AgentConfig
from agentchat.orchestrator.run.run_clock import RunClock, add_seconds
from agentchat.runtime import failpoints, genai_attributes, tracing
from agentchat.runtime.retry_loops import wait_for_event

_LOOK_AGAIN_SECONDS = 5.0
_SHORTEN_SECONDS = 2.0
_SHORT_CHARACTERS = 4 * 1024  # a result up to this may stay in RESULTS for its 15 minutes

_UNKNOWN = "The tool {} timed out; its outcome is unknown."
_GONE = "The tool {} cannot be reached any more; the call was not run."


class ToolInputRequired(msgspec.Struct, frozen=True):
    """A request of the tool of `call` for a person's input, before the call is done."""

    call: Call
    requests: tuple[InputRequest, ...]
    request_state: str | None

    @property
    def asked(self) -> tuple[InputAsked, ...]:
        """The requests, as the event that asks a person for input has them."""
        return tuple(
            InputAsked(
                **msgspec.structs.asdict(each.elicitation),
                name=self.call.name,
                input=self.call.ran_input,
                key=each.key,
                leg=self.call.leg,
                request_state=self.request_state,
            )
            for each in self.requests
        )


class PendingCall:
    """One tool call, from its request to its result."""

    def __init__(self, call: Call, *, requested_before: bool) -> None:
        self.call = call
        self.requested_before = requested_before
        """True if an earlier attempt may have requested it."""
        self.seconds = 0.0
        """The time-out of its tool."""
        self.awaited_until: float | None = None
        """The loop's time until which its result is awaited; None if not requested here."""
        self.unconfirmed: ToolRequested | None = None
        """The request, while the bus has not confirmed it."""
        self.span: Span | None = None
        self.result: ToolFinished | None = None

    @property
    def may_have_run(self) -> bool:
        """True if the call may have been run."""
        return self.requested_before or self.awaited_until is not None

    def finish(self, result: ToolFinished) -> None:
        """Store the result and end the span."""
        self.result = result
        self.end_span()

    def end_span(self) -> None:
        """End the span if there is one."""
        if self.span is not None:
            self.span.end()
            self.span = None


class RunToolCalls:
    """The calls of `run`, as it is when an attempt starts. Close it when the attempt ends."""

    def __init__(
        self,
        bus: Bus,
        agent: AgentConfig,
        run: Run,
        clock: RunClock,
        run_ends_at: str,
        *,
        conversation_id: str = "",
        user_id: str | None = None,
        tool_seconds: float = TOOL_MOST_SECONDS,
        slack_seconds: float = TOOL_SLACK_SECONDS,
    ) -> None:
        self._queues = bus.queues
        self._traces = bus.traces
        self._agent = agent
        self._server_seconds = {
            server.name: min(float(server.max_call_seconds), tool_seconds) for server in agent.mcp_servers
        }
        self._slack_seconds = slack_seconds
        self._trace_id = run.trace_id
        self._conversation_id = conversation_id
        self._user_id = user_id
        self._context = run.context
        self._depth = run.depth
        self._calls = {
            call.call_id: PendingCall(call, requested_before=call.may_run_since[0] < run.attempt)
            for each in run.rounds
            for call in each.calls
        }
        self._clock = clock
        self._run_ends_at = run_ends_at
        self._following: Subscription | None = None
        self._result_came = asyncio.Event()
        self._shortening: set[asyncio.Task[None]] = set()

    async def run(
        self, round_number: int, calls: tuple[Call, ...], offered: Mapping[str, ToolSpec]
    ) -> tuple[events.ToolReturned | ToolInputRequired, ...]:
        """Request the calls of a round, wait for their results, and return them in the order of the calls."""
        if self._following is None:
            self._following = await self._traces.follow_tool_results(self._trace_id, self._take)
        pending = [self._get_pending(call, offered) for call in calls]
        if any(each.requested_before for each in pending):
            await self._read_results()
        await self._request([each for each in pending if self._should_request(each, offered)], offered)
        await self._wait([each for each in pending if each.may_have_run])
        failpoints.reach("orchestrator-tools-returned")
        return tuple(self._build_outcome(round_number, each) for each in pending)

    def forget_recorded(self, run: Run) -> None:
        """Remove large results that the log of `run` has from the bus, in the background.

        No result of a run that has ended is needed any more.
        """
        needed = {
            call.call_id
            for each in run.rounds
            for call in each.calls
            if call.output is None and run.state == "running"
        }
        for each in tuple(self._calls.values()):
            result = each.result
            if result is not None and len(result.output) > _SHORT_CHARACTERS and result.call_id not in needed:
                each.result = None
                task = asyncio.create_task(self._shorten_result(result))
                self._shortening.add(task)
                task.add_done_callback(self._shortening.discard)

    async def close(self) -> None:
        """Wait for the removal of results and stop following the run."""
        if self._shortening:
            await asyncio.wait(self._shortening, timeout=_SHORTEN_SECONDS)
        for each in self._calls.values():
            each.end_span()
        if self._following is not None:
            await self._following.close()

    def _get_pending(self, call: Call, offered: Mapping[str, ToolSpec]) -> PendingCall:
        """Return what is known of a call; its time-out is that of the tool as it is offered now."""
        pending = self._calls.setdefault(call.call_id, PendingCall(call, requested_before=False))
        pending.call = call
        pending.seconds = self._get_timeout(offered.get(call.name))
        return pending

    def _get_timeout(self, spec: ToolSpec | None) -> float:
        """Return the time-out of a tool; of one that is no longer offered, the longest of its agent."""
        longest = max(self._server_seconds.values(), default=0.0)
        return longest if spec is None else self._server_seconds.get(spec.server, longest)

    def _should_request(self, pending: PendingCall, offered: Mapping[str, ToolSpec]) -> bool:
        spec = offered.get(pending.call.name)
        if not pending.requested_before:
            return spec is not None  # the tool may have gone since the model called it
        return pending.result is None and spec is not None and (spec.read_only or spec.idempotent)

    async def _request(self, calls: Sequence[PendingCall], offered: Mapping[str, ToolSpec]) -> None:
        """Request these calls. Waits only until they are queued."""
        for pending in calls:
            call, spec = pending.call, offered[pending.call.name]
            deadline = min(
                add_seconds(self._get_start(pending), pending.seconds + self._slack_seconds),
                self._run_ends_at,
            )
            pending.awaited_until = self._compute_answer_time(deadline)
            pending.span = _start_span(call)
            pending.unconfirmed = ToolRequested(
                trace_id=self._trace_id,
                call_id=call.call_id,
                account_id=self._agent.account_id,
                agent_id=self._agent.agent_id,
                agent_version=self._agent.version,
                server=spec.server,
                tool=spec.tool,
                input=call.ran_input,
                timeout_s=pending.seconds,
                deadline=deadline,
                leg=call.leg,
                responses=call.responses,
                request_state=call.request_state,
                conversation_id=self._conversation_id,
                user_id=self._user_id,
                context=self._context,
                depth=self._depth,
            )
        failpoints.reach("orchestrator-before-tool-request")
        await self._send()
        failpoints.reach("orchestrator-tool-requested")

    def _get_start(self, pending: PendingCall) -> str:
        """Return the time from which a call's time-out counts: the event that allowed it to start.

        A worker that was paused cannot extend that. A call of an earlier attempt that is requested again,
        because it may run twice, counts from now.
        """
        return self._clock.now() if pending.requested_before else pending.call.may_run_since[1]

    def _compute_answer_time(self, deadline: str) -> float:
        """Return the loop's time by which a call with this deadline has an answer, if it gets one."""
        left = TOOL_ANSWER_SECONDS - self._clock.seconds_since(deadline)
        return asyncio.get_running_loop().time() + left

    def _get_wait_end(self, pending: PendingCall) -> float:
        """Return until when a result is awaited. A call that must not run twice keeps its first deadline."""
        if pending.awaited_until is not None:
            return pending.awaited_until
        deadline = add_seconds(pending.call.may_run_since[1], pending.seconds + self._slack_seconds)
        return self._compute_answer_time(min(deadline, self._run_ends_at))

    async def _send(self) -> None:
        """Publish the requests that the bus has not confirmed. It drops duplicates by their id."""
        waiting = [each for each in self._calls.values() if each.unconfirmed is not None]
        outcomes = await asyncio.gather(*map(self._send_request, waiting), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, BusUnavailable):
                raise outcome

    async def _send_request(self, pending: PendingCall) -> None:
        """Queue the request in TOOLS. Handled by `tool_runner.calls.handler.CallHandler.handle`."""
        assert pending.unconfirmed is not None
        span = pending.span or tracing.start_span("execute_tool")
        with use_span(span, record_exception=False, set_status_on_exception=False):
            await self._queues.request_tool(pending.unconfirmed)
        pending.unconfirmed = None

    async def _wait(self, calls: Iterable[PendingCall]) -> None:
        """Wait until each call has a result or its time is up."""
        loop = asyncio.get_running_loop()
        while missing := [each for each in calls if each.result is None]:
            left = max(map(self._get_wait_end, missing)) - loop.time()
            if left <= 0:
                await self._read_results()  # a worker that was paused has not read what came meanwhile
                return
            self._result_came.clear()
            if not await wait_for_event(self._result_came, min(left, _LOOK_AGAIN_SECONDS)):
                await self._send()
                await self._read_results()

    async def _read_results(self) -> None:
        """Take the results that were published while nobody followed, or while NATS was away."""
        with contextlib.suppress(BusUnavailable):
            for result in (await self._traces.read_tool_results(self._trace_id)).values():
                self._take(result)

    def _take(self, result: ToolFinished) -> None:
        pending = self._calls.get(result.call_id)
        if pending is None or result.recorded or result.leg != pending.call.leg:
            return  # a result of before the call asked for input
        pending.finish(result)
        self._result_came.set()

    async def _shorten_result(self, result: ToolFinished) -> None:
        with contextlib.suppress(BusUnavailable):  # the result stays for its 15 minutes
            await self._traces.shorten_tool_result(result)

    def _build_outcome(
        self, round_number: int, pending: PendingCall
    ) -> events.ToolReturned | ToolInputRequired:
        call, result = pending.call, pending.result
        if result is not None and result.input_requests:
            return ToolInputRequired(call, result.input_requests, result.request_state)
        if result is None:
            words = _UNKNOWN if pending.may_have_run else _GONE
            result = ToolFinished(
                trace_id=self._trace_id,
                call_id=call.call_id,
                output=wire.encode_tool_error(words.format(call.name)),
                is_error=True,
                ms=int(pending.seconds * 1000) if pending.may_have_run else 0,
            )
        return events.ToolReturned(
            trace_id=self._trace_id,
            at=self._clock.now(),
            round=round_number,
            call_id=call.call_id,
            output=clean_text(result.output),
            is_error=result.is_error,
            files=result.files,
            quotes_server=result.quotes_server,
            ms=result.ms,
        )


def _start_span(call: Call) -> Span:
    return tracing.start_span(
        f"{genai_attributes.EXECUTE_TOOL} {call.name}",
        kind=SpanKind.CLIENT,
        attributes={
            genai_attributes.OPERATION_NAME: genai_attributes.EXECUTE_TOOL,
            genai_attributes.TOOL_NAME: call.name,
            genai_attributes.TOOL_CALL_ID: call.call_id,
            genai_attributes.TOOL_TYPE: "function",
        },
    )
