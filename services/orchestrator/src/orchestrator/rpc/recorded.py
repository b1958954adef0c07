"""The ends of a run that is done again: tools and sources out of its record, and readers that are nobody."""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from contracts import events, frames, wire
from contracts.values import Source, ToolSpec
from conversations.aggregate.conversation import Conversation, Run, evolve_all
from conversations.aggregate.rounds import Call
from directory.agents import AgentConfig
from orchestrator.run.retrieval import Retriever
from orchestrator.run.run_clock import RunClock
from orchestrator.run.run_log import run_of
from runtime.postgres import Pool


class MemoryLog:
    def __init__(self, conversation: Conversation, trace_id: str) -> None:
        self.conversation = conversation
        self._trace_id = trace_id

    @property
    def run(self) -> Run:
        return run_of(self.conversation, self._trace_id)

    async def append(self, new: Sequence[events.Event]) -> None:
        self.conversation = evolve_all(self.conversation, new)


class NoReaders:
    """Takes frames, and sends them nowhere."""

    is_open = True

    async def ready(self, frame: frames.Frame) -> None:
        """At once."""

    def send_frame(self, trace_id: str, frame: frames.Frame) -> bool:  # noqa: ARG002 - of FrameSink
        return True


class RecordedTools:
    """Answers calls with what the same ones came to in a recorded run: the same name, and an equal input.

    Each result answers one call, in the order in which they were asked for: the second of two equal calls
    may well have had another answer. A call that the record lacks is an error for the model; none is made.
    """

    def __init__(self, recorded: Run, clock: RunClock) -> None:
        self.missed: set[str] = set()
        self._trace_id = recorded.trace_id
        self._clock = clock
        self._held: dict[tuple[str, bytes], deque[Call]] = defaultdict(deque)
        for each in recorded.rounds:
            for call in each.calls:
                if call.output is not None:
                    self._held[_asked(call.name, call.input)].append(call)

    async def run(
        self,
        round_number: int,
        calls: tuple[Call, ...],
        offered: Mapping[str, ToolSpec],  # noqa: ARG002 - as any tools have it
    ) -> tuple[events.ToolReturned, ...]:
        return tuple(self._returned(round_number, call) for call in calls)

    def recorded(self, run: Run) -> None:
        """Nothing else keeps their results."""

    def _returned(self, round_number: int, call: Call) -> events.ToolReturned:
        held = self._held[_asked(call.name, call.input)]
        if held:
            found = held.popleft()
        else:
            self.missed.add(call.call_id)
            problem = f"This is a replay: its record holds no result of {call.name} with this input."
            found = msgspec.structs.replace(call, output=wire.error_output(problem), is_error=True)
        return events.ToolReturned(
            trace_id=self._trace_id,
            at=self._clock.now(),
            round=round_number,
            call_id=call.call_id,
            output=found.output or "",
            is_error=found.is_error,
            ms=found.ms,
        )


class RecordedSources(Retriever):
    """Finds what the recorded run found. `agent` tells the knowledge base that has the passages after it.

    The log holds snippets; the passages are read from the knowledge base, as for a run taken up again.
    """

    def __init__(self, pool: Pool, agent: AgentConfig, recorded: Run) -> None:
        super().__init__(pool, agent)
        self.missed = False
        self._sources = recorded.sources

    async def find(self, question: str) -> tuple[Source, ...]:  # noqa: ARG002 - a retriever's
        """The recorded sources; none, and `missed`, where the run did not look for any."""
        self.missed = self._sources is None
        return self._sources or ()


def _asked(name: str, given: dict[str, Any]) -> tuple[str, bytes]:
    return name, wire.encode_canonical(given)
