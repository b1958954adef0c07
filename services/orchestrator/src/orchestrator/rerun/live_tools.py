"""Tools that a rerun may really call: by the tool-runner, as any run's, for a stored agent version."""

from msgspec.structs import replace

from bus import Bus
from contracts import wire
from contracts.ids import new_trace_id
from contracts.values import ToolSpec
from conversations.aggregate.conversation import Run
from conversations.aggregate.rounds import Call
from directory.agents import AgentConfig
from orchestrator.rerun.unrecorded_calls import GivenAnswer
from orchestrator.run.run_clock import RunClock
from orchestrator.tools.tool_calls import RunToolCalls, ToolInputRequired

_ASKS = "This is a replay: the tool asks a person for input, and nobody is asked."


class LiveTools:
    """Calls tools with a trace of its own, by which no run can be found. `seconds` are left for all calls."""

    def __init__(self, bus: Bus, agent: AgentConfig, recorded: Run, now: str, seconds: float) -> None:
        self._bus = bus
        self._agent = agent
        self._run = replace(recorded, trace_id=new_trace_id(), rounds=(), attempt=1)
        self._clock = RunClock(now)
        self._ends_at = self._clock.after(seconds)

    async def answer(self, call: Call, spec: ToolSpec) -> GivenAnswer:
        """What the tool says; where it asks a person, an error."""
        now = self._clock.now()
        calls = RunToolCalls(self._bus, self._agent, self._run, self._clock, self._ends_at, no_run=True)
        try:
            (came,) = await calls.run(1, (replace(call, at=now, attempt=1),), {spec.name: spec})
        finally:
            await calls.close()
        if isinstance(came, ToolInputRequired):
            return GivenAnswer(wire.error_output(_ASKS), is_error=True)
        return GivenAnswer(came.output, is_error=came.is_error, ms=came.ms)
