"""The tools of one run: requested together, and collected when all have answered or time is up.

A call whose result was lost is requested again only if the tool may run twice; what is not known to have
run, or not, is reported to the model as unknown.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

import msgspec
from opentelemetry.trace import Span, SpanKind, use_span

from bus import Bus, BusUnavailable, Subscription
from contracts import events, wire
from contracts.text import cleaned
from contracts.timings import TOOL_ANSWER_SECONDS, TOOL_MOST_SECONDS, TOOL_SLACK_SECONDS
from contracts.tool_messages import InputRequest, ToolFinished, ToolRequested
from contracts.values import ToolSpec
from conversations.aggregate.conversation import Run
from conversations.aggregate.rounds import Call
from directory.agents import AgentConfig
from orchestrator.run.run_clock import RunClock, later
from runtime import failpoints, genai, telemetry
from runtime.following import wait_for_event

_LOOK_AGAIN_SECONDS = 5.0
_RECORD_SECONDS = 2.0
_SHORT_CHARACTERS = 4 * 1024  # a result up to this may stay in RESULTS for its 15 minutes

_UNKNOWN = "The tool {} timed out; its outcome is unknown."
_GONE = "The tool {} cannot be reached any more; the call was not run."


class ToolInputRequired(msgspec.Struct, frozen=True):
    """The tool of `call` asks a person, and is not done."""

    call: Call
    requests: tuple[InputRequest, ...]
    request_state: str | None

    @property
    def asked(self) -> tuple[events.InputAsked, ...]:
        return tuple(
            events.InputAsked(
                **msgspec.structs.asdict(each.elicitation),
                name=self.call.name,
                input=self.call.ran_input,
                key=each.key,
                leg=self.call.leg,
                request_state=self.request_state,
            )
            for each in self.requests
        )


class RunToolCalls:
    """The calls of `run`, as it is when an attempt at it begins. Close it when the run has ended here."""

    def __init__(
        self,
        bus: Bus,
        agent: AgentConfig,
        run: Run,
        clock: RunClock,
        run_ends_at: str,
        *,
        tool_seconds: float = TOOL_MOST_SECONDS,
        slack_seconds: float = TOOL_SLACK_SECONDS,
    ) -> None:
        self._queues = bus.queues
        self._traces = bus.traces
        self._agent = agent
        self._call_seconds = {
            server.name: min(float(server.max_call_seconds), tool_seconds) for server in agent.mcp_servers
        }
        self._trace_id = run.trace_id
        # An earlier attempt may have requested these, and they may have run.
        self._earlier = {
            call.call_id for each in run.rounds for call in each.calls if call.may_run_since[0] < run.attempt
        }
        # Of a call that came back for input, the results of before are no news.
        self._call_attempts = {
            call.call_id: call.leg for each in run.rounds for call in each.calls if call.leg
        }
        self._clock = clock
        self._run_ends_at = run_ends_at
        self._slack_seconds = slack_seconds
        self._following: Subscription | None = None
        self._results: dict[str, ToolFinished] = {}
        self._news = asyncio.Event()
        self._asked: dict[str, float] = {}  # until when each is waited for, by the loop's time
        self._unsent: dict[str, ToolRequested] = {}
        self._spans: dict[str, Span] = {}
        self._recording: set[asyncio.Task[None]] = set()

    async def run(
        self, round_number: int, calls: tuple[Call, ...], offered: Mapping[str, ToolSpec]
    ) -> tuple[events.ToolReturned | ToolInputRequired, ...]:
        """What the calls of a round came to, in their order: requested now, and waited for."""
        if self._following is None:
            self._following = await self._traces.follow_tool_results(self._trace_id, self._take)
        if not self._earlier.isdisjoint(call.call_id for call in calls):
            await self._look()
        await self._ask([call for call in calls if self._is_to_be_asked(call, offered)], offered)
        waited = [call for call in calls if self._may_have_been_asked(call)]
        await self._wait(waited, offered)
        failpoints.reach("orchestrator-tools-returned")
        return tuple(self._returned(round_number, call, offered) for call in calls)

    def _is_to_be_asked(self, call: Call, offered: Mapping[str, ToolSpec]) -> bool:
        if call.call_id not in self._earlier:
            return call.name in offered  # days may have passed since it was
        return call.call_id not in self._results and _may_repeat(offered.get(call.name))

    def _seconds(self, spec: ToolSpec | None) -> float:
        """Return the time-out of a tool; of one that is no longer offered, the longest of its agent."""
        longest = max(self._call_seconds.values(), default=0.0)
        return longest if spec is None else self._call_seconds.get(spec.server, longest)

    def _may_have_been_asked(self, call: Call) -> bool:
        return call.call_id in self._asked or call.call_id in self._earlier

    async def _ask(self, calls: Sequence[Call], offered: Mapping[str, ToolSpec]) -> None:
        """Have these calls run. Nothing is awaited but that they are queued."""
        for call in calls:
            spec = offered[call.name]
            began = self._began(call)
            seconds = self._seconds(spec)
            deadline = min(later(began, seconds + self._slack_seconds), self._run_ends_at)
            self._asked[call.call_id] = self._answered_by(deadline)
            self._spans[call.call_id] = _span(call)
            self._unsent[call.call_id] = ToolRequested(
                trace_id=self._trace_id,
                call_id=call.call_id,
                account_id=self._agent.account_id,
                agent_id=self._agent.agent_id,
                agent_version=self._agent.version,
                server=spec.server,
                tool=spec.tool,
                input=call.ran_input,
                timeout_s=seconds,
                deadline=deadline,
                leg=call.leg,
                responses=call.responses,
                request_state=call.request_state,
            )
        failpoints.reach("orchestrator-before-tool-request")
        await self._send()
        failpoints.reach("orchestrator-tool-requested")

    def _began(self, call: Call) -> str:
        """From when its time counts: from the event by which it may begin.

        A worker that was paused since cannot renew that.

        One of an earlier attempt is requested again, from now on, and may be run twice.
        """
        return self._clock.now() if call.call_id in self._earlier else call.may_run_since[1]

    def _answered_by(self, deadline: str) -> float:
        """The loop's time by which a call with this deadline has an answer, if it gets one."""
        left = TOOL_ANSWER_SECONDS - self._clock.seconds_since(deadline)
        return asyncio.get_running_loop().time() + left

    def _awaited_until(self, call: Call, offered: Mapping[str, ToolSpec]) -> float:
        """One that an earlier attempt requested, and that must not run twice, keeps its deadline."""
        if (asked := self._asked.get(call.call_id)) is not None:
            return asked
        seconds = self._seconds(offered.get(call.name)) + self._slack_seconds
        return self._answered_by(min(later(call.may_run_since[1], seconds), self._run_ends_at))

    def recorded(self, run: Run) -> None:
        """The log has `run`: have large results that are in there leave the bus, in the background.

        Of a run that has ended no result is needed any more.
        """
        needed = {
            call.call_id
            for each in run.rounds
            for call in each.calls
            if call.output is None and run.state == "running"
        }
        for result in tuple(self._results.values()):
            if len(result.output) > _SHORT_CHARACTERS and result.call_id not in needed:
                del self._results[result.call_id]
                task = asyncio.create_task(self._record(result))
                self._recording.add(task)
                task.add_done_callback(self._recording.discard)

    async def close(self) -> None:
        if self._recording:
            await asyncio.wait(self._recording, timeout=_RECORD_SECONDS)
        for span in self._spans.values():
            span.end()
        if self._following is not None:
            await self._following.close()

    async def _record(self, result: ToolFinished) -> None:
        with contextlib.suppress(BusUnavailable):  # it stays for its 15 minutes
            await self._traces.record_tool(result)

    def _take(self, result: ToolFinished) -> None:
        if result.recorded or result.leg != self._call_attempts.get(result.call_id, 0):
            return
        self._results[result.call_id] = result
        self._news.set()
        span = self._spans.pop(result.call_id, None)
        if span is not None:
            span.end()

    async def _send(self) -> None:
        """What the bus does not confirm stays to be sent again: it knows a request by its id."""
        waiting = list(self._unsent.values())
        outcomes = await asyncio.gather(*map(self._request, waiting), return_exceptions=True)
        for request, outcome in zip(waiting, outcomes, strict=True):
            if outcome is None:
                self._unsent.pop(request.call_id, None)
            elif not isinstance(outcome, BusUnavailable):
                raise outcome

    async def _request(self, request: ToolRequested) -> None:
        span = self._spans.get(request.call_id) or telemetry.start_span("execute_tool")
        with use_span(span, record_exception=False, set_status_on_exception=False):
            await self._queues.request_tool(request)

    async def _look(self) -> None:
        """What was published while nobody followed, or while NATS was away."""
        with contextlib.suppress(BusUnavailable):
            for result in (await self._traces.tool_results_of(self._trace_id)).values():
                self._take(result)

    async def _wait(self, calls: Sequence[Call], offered: Mapping[str, ToolSpec]) -> None:
        """Until all of these have a result, or the time that each is awaited until has come."""
        loop = asyncio.get_running_loop()
        while missing := [call for call in calls if call.call_id not in self._results]:
            left = max(self._awaited_until(call, offered) for call in missing) - loop.time()
            if left <= 0:
                await self._look()  # a worker that was paused has not read what came meanwhile
                return
            self._news.clear()
            if not await wait_for_event(self._news, min(left, _LOOK_AGAIN_SECONDS)):
                await self._send()
                await self._look()

    def _returned(
        self, round_number: int, call: Call, offered: Mapping[str, ToolSpec]
    ) -> events.ToolReturned | ToolInputRequired:
        result = self._results.get(call.call_id)
        if result is not None and result.input_requests:
            return ToolInputRequired(call, result.input_requests, result.request_state)
        if result is None:
            known = self._may_have_been_asked(call)
            result = ToolFinished(
                trace_id=self._trace_id,
                call_id=call.call_id,
                output=wire.error_output((_UNKNOWN if known else _GONE).format(call.name)),
                is_error=True,
                ms=int(self._seconds(offered.get(call.name)) * 1000) if known else 0,
            )
        return events.ToolReturned(
            trace_id=self._trace_id,
            at=self._clock.now(),
            round=round_number,
            call_id=call.call_id,
            output=cleaned(result.output),
            is_error=result.is_error,
            ms=result.ms,
        )


def _may_repeat(spec: ToolSpec | None) -> bool:
    return spec is not None and (spec.read_only or spec.idempotent)


def _span(call: Call) -> Span:
    return telemetry.start_span(
        f"{genai.EXECUTE_TOOL} {call.name}",
        kind=SpanKind.CLIENT,
        attributes={
            genai.OPERATION_NAME: genai.EXECUTE_TOOL,
            genai.TOOL_NAME: call.name,
            genai.TOOL_CALL_ID: call.call_id,
            genai.TOOL_TYPE: "function",
        },
    )
