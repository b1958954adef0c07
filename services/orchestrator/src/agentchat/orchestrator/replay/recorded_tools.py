"""Provide a replay with recorded tool results and sources, a log in memory and a null frame sink."""

import difflib
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from agentchat.contracts import events, frames, wire
from agentchat.contracts.replay_messages import AskedTool, Divergence
from agentchat.contracts.values import Source, ToolSpec
from agentchat.conversations.aggregate.conversation import Conversation, Run, evolve_all
from agentchat.conversations.aggregate.rounds import Call
from agentchat.directory.agent_config import AgentConfig
from agentchat.knowledge.search.passages import Passage
from agentchat.orchestrator.run.retrieval import Retriever
from agentchat.orchestrator.run.run_clock import RunClock
from agentchat.orchestrator.run.run_log import get_run
from agentchat.runtime.postgres import Pool

_COMPARED_CHARACTERS = 2_000
"""Length of inputs that are compared, which takes quadratic time."""


class Diverged(Exception):  # noqa: N818 - an outcome, named as such
    """The replay calls a tool in a way that was not recorded, so it stops."""

    def __init__(self, divergence: Divergence) -> None:
        call = divergence.call
        given = wire.encode_canonical(call.input).decode()
        super().__init__(f"Round {call.round} calls {call.name} {given}, which was never recorded.")
        self.divergence = divergence


class MemoryRecorder:
    """A log in memory."""

    def __init__(self, conversation: Conversation, trace_id: str) -> None:
        self.conversation = conversation
        self._trace_id = trace_id

    @property
    def run(self) -> Run:
        """The run as far as it is recorded."""
        return get_run(self.conversation, self._trace_id)

    async def append(self, new: Sequence[events.Event]) -> None:
        """Add events to the conversation in memory."""
        self.conversation = evolve_all(self.conversation, new)


class NullSink:
    """A sink that drops frames."""

    is_open = True

    async def wait_until_allowed(self, frame: frames.Frame) -> None:
        """Return at once."""

    async def publish_frame(self, trace_id: str, frame: frames.Frame) -> None:
        """Drop the frame."""


class RecordedTools:
    """Tools that answer a call with its recorded result: the same name and an equal input.

    Each result answers one call, in recorded order: the second of two equal calls may have another result.
    """

    def __init__(self, recorded: Run, clock: RunClock) -> None:
        self.diverged: Divergence | None = None
        self._trace_id = recorded.trace_id
        self._clock = clock
        self._unused: dict[tuple[str, bytes], deque[tuple[int, Call]]] = defaultdict(deque)
        for each in recorded.rounds:
            for call in each.calls:
                if call.output is not None:
                    self._unused[_build_key(call.name, call.input)].append((each.number, call))

    async def run(
        self,
        round_number: int,
        calls: tuple[Call, ...],
        offered: Mapping[str, ToolSpec],  # noqa: ARG002 - of the tools of every run
    ) -> tuple[events.Event, ...]:
        """Return the recorded results. Raises Diverged for a call that was not recorded."""
        found: list[tuple[Call, Call]] = []
        for call in calls:
            held = self._unused[_build_key(call.name, call.input)]
            if not held:
                asked = AskedTool(round=round_number, name=call.name, input=call.input, missed=True)
                self.diverged = Divergence(call=asked, nearest=find_nearest(asked, self._list_unused()))
                raise Diverged(self.diverged)
            found.append((call, held.popleft()[1]))
        return (
            *(
                event
                for call, same in found
                for event in self._copy_decisions(call.call_id, round_number, same)
            ),
            *(self._build_result(round_number, call.call_id, same) for call, same in found),
        )

    def list_calls(self, run: Run) -> tuple[AskedTool, ...]:
        """List every call of the run; the one that stopped it is `missed`."""
        calls = [
            AskedTool(round=each.number, name=call.name, input=call.input)
            for each in run.rounds
            for call in each.calls
        ]
        if self.diverged is not None:
            missed = self.diverged.call
            same = replace(missed, missed=False)
            calls[max(place for place, call in enumerate(calls) if call == same)] = missed
        return tuple(calls)

    def forget_recorded(self, run: Run) -> None:
        """Do nothing: the results are kept nowhere else."""

    def _list_unused(self) -> list[AskedTool]:
        """List the recorded calls that the replay has not made yet."""
        return [
            AskedTool(round=number, name=call.name, input=call.input)
            for held in self._unused.values()
            for number, call in held
        ]

    def _copy_decisions(self, call_id: str, round_number: int, recorded: Call) -> list[events.Event]:
        """Copy an approver's change of the input, which the model sees with the result."""
        return [
            event
            for each in recorded.approvals
            if each.asked is None and each.decided is not None and each.decided.input is not None
            for event in (
                replace(each.requested, trace_id=self._trace_id, call_id=call_id, round=round_number),
                replace(each.decided, trace_id=self._trace_id),
            )
        ]

    def _build_result(self, round_number: int, call_id: str, answer: Call) -> events.ToolReturned:
        return events.ToolReturned(
            trace_id=self._trace_id,
            at=self._clock.now(),
            round=round_number,
            call_id=call_id,
            output=answer.output or "",
            is_error=answer.is_error,
            files=answer.files,
            ms=answer.ms,
        )


class RecordedSources(Retriever):
    """A retriever that finds what the recorded run found.

    The log has snippets only. The passages are read from the knowledge base of `agent`, or are `passages`,
    texts by source id.
    """

    def __init__(
        self, pool: Pool, agent: AgentConfig, recorded: Run, passages: Mapping[str, str] | None
    ) -> None:
        super().__init__(pool, agent)
        self.missed = False
        self._sources = recorded.sources
        self._texts = passages

    async def find(self, question: str) -> tuple[Source, ...]:  # noqa: ARG002 - a retriever's
        """Return the recorded sources; none, and `missed`, if the run did not search."""
        self.missed = self._sources is None
        return self._sources or ()

    async def load_found_passages(
        self, knowledge_base_id: str, sources: Sequence[Source]
    ) -> Sequence[Passage]:
        """Return the given passages, or load them from the knowledge base."""
        if self._texts is None:
            return await super().load_found_passages(knowledge_base_id, sources)
        return [Passage(source, self._texts.get(source.id, source.snippet)) for source in sources]


def find_nearest(asked: AskedTool, held: Sequence[AskedTool]) -> AskedTool | None:
    """Find the recorded call that is most like `asked`: the same tool first, then the closest input."""

    def rate_likeness(other: AskedTool) -> tuple[bool, float]:
        inputs = difflib.SequenceMatcher(None, _encode_input(asked), _encode_input(other), autojunk=False)
        return other.name == asked.name, inputs.ratio()

    return max(held, key=rate_likeness, default=None)


def _encode_input(call: AskedTool) -> str:
    return wire.encode_canonical(call.input).decode()[:_COMPARED_CHARACTERS]


def _build_key(name: str, given: dict[str, Any]) -> tuple[str, bytes]:
    return name, wire.encode_canonical(given)
