"""Bugs, put into the services one at a time: what a simulator that finds nothing has to find."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.conversations.aggregate.conversation import evolve_all
from agentchat.conversations.aggregate.model_messages import build_prompt
from agentchat.conversations.aggregate.opening_rules import MustWait, StartRun, decide_opening
from agentchat.gateway.runs.frames_to_updates import View
from agentchat.orchestrator.inbox.inbox import Inbox, take_lease
from agentchat.orchestrator.inbox.put_back import LeaseHeld
from agentchat.orchestrator.run.channel import TraceChannel, build_end_frame
from agentchat.orchestrator.run.interrupted_text import SentOutput
from agentchat.orchestrator.run.run_attempt import RunAttempt
from agentchat.orchestrator.run.run_log import get_run
from agentchat.tool_runner.tools.server_tool import OfferedTool
from tests.simulator.model import SimAgents
from tests.simulator.simulate import Simulation


@contextlib.contextmanager
def _instead(owner: Any, name: str, value: Any) -> Iterator[None]:
    kept = owner.__dict__[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, kept)


@contextlib.contextmanager
def _opening_decided_by(open_mutated: Any) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for module in ("starting.decide_request", "inbox.inbox"):
            stack.enter_context(
                _instead(sys.modules[f"agentchat.orchestrator.{module}"], "decide_opening", open_mutated)
            )
        yield


def no_fencing() -> Any:
    """Events are stored at whatever version the conversation has by now."""

    def run_unfenced(self: Simulation) -> Any:
        self.postgres.fences = False
        return run(self)

    run = Simulation.run
    return _instead(Simulation, "run", run_unfenced)


def acknowledged_before_saved() -> Any:
    """A request leaves the queue when it is taken up."""

    async def handle(self: Inbox, delivery: Any) -> None:
        await delivery.ack()
        await real(self, delivery)

    real = Inbox.handle
    return _instead(Inbox, "handle", handle)


def request_not_known_again() -> Any:
    """A request whose run has ended begins another one."""

    def open_mutated(conversation: Any, request: Any, *args: Any, **more: Any) -> Any:
        runs = tuple(run for run in conversation.runs if run.trace_id != request.trace_id or not run.ended_at)
        return decide_opening(replace(conversation, runs=runs), request, *args, **more)

    return _opening_decided_by(open_mutated)


def begins_during_another() -> Any:
    """A message does not wait for the run before it."""

    def open_mutated(conversation: Any, request: Any, *args: Any, **more: Any) -> Any:
        opening = decide_opening(conversation, request, *args, **more)
        if not isinstance(opening, MustWait):
            return opening
        runs = tuple(run for run in conversation.runs if run.ended_at)
        alone = decide_opening(replace(conversation, runs=runs), request, *args, **more)
        assert isinstance(alone, StartRun)
        return alone

    return _opening_decided_by(open_mutated)


def every_tool_is_repeated() -> Any:
    """A runner takes every tool for one that may run twice: it acknowledges the call after it."""
    return _instead(OfferedTool, "repeatable", property(lambda _: True))


def ended_runs_have_their_calls_run() -> Any:
    """A runner does not ask whether the run of a call goes on."""

    async def load_servers(self: SimAgents, *_: Any) -> Any:
        return self._agent.mcp_servers

    return _instead(SimAgents, "load_servers", load_servers)


def resumed_behind_nothing() -> Any:
    """The next worker does not read back what was sent of the round."""
    return _instead(
        sys.modules["agentchat.orchestrator.run.run_attempt"], "read_sent_output", lambda *_: SentOutput()
    )


@contextlib.contextmanager
def offset_not_compared() -> Iterator[None]:
    """The gateway goes on with whatever the next worker says.

    It shows where a gap is left: the text that workers repeat would fill nearly all of them.
    """

    def place(self: View, frame: Any) -> None:
        self._add_text(frame.text)

    async def repeat_nothing(_channel: TraceChannel) -> None:
        pass

    with (
        _instead(View, "_resume", lambda *_: None),
        _instead(View, "_place", place),
        _instead(TraceChannel, "repeat_text", repeat_nothing),
    ):
        yield


def nobody_sweeps() -> Any:
    """Runs that nobody works on are not asked for again."""

    async def return_nothing(*_: Any, **__: Any) -> list[Any]:
        return []

    return _instead(sys.modules["agentchat.projector.run_sweeper"], "claim_abandoned", return_nothing)


def done_before_saved() -> Any:
    """The end is told before it is stored."""

    def begin(self: RunAttempt, parts: Any, turn: Any) -> None:
        real(self, parts, turn)
        append = self.log.append

        async def send_before_append(new: Any) -> None:
            if any(isinstance(event, events.RunCompleted) for event in new):
                after = get_run(evolve_all(self.log.conversation, new), turn.trace_id)
                await self.channel.send(build_end_frame(after))
            await append(new)

        setattr(self.log, "append", send_before_append)  # noqa: B010 - a method

    real = RunAttempt.__init__
    return _instead(RunAttempt, "__init__", begin)


def history_without_the_run_before() -> Any:
    """The model is not shown the run before this one."""

    def build_cut_prompt(conversation: Any, trace_id: str, **more: Any) -> Any:
        runs = [run for run in conversation.runs if run.trace_id == trace_id or not run.rounds]
        return build_prompt(replace(conversation, runs=tuple(runs)), trace_id, **more)

    return _instead(sys.modules["agentchat.orchestrator.run.perform_step"], "build_prompt", build_cut_prompt)


def lost_lease_is_nothing() -> Any:
    """A worker takes a run whose lease another one has."""

    async def take_held_lease(parts: Any, received: Any) -> Any:
        try:
            return await take_lease(parts, received)
        except LeaseHeld:
            parts.leases._pool.postgres._leases.pop(received.trace_id, None)
            return await take_lease(parts, received)

    return _instead(sys.modules["agentchat.orchestrator.inbox.inbox"], "take_lease", take_held_lease)


def round_said_twice() -> Any:
    """What an earlier attempt sent of a round is said again, after itself."""

    def add_continuation(messages: Any, _sent: str, *, prefill: bool) -> Any:
        return messages

    return _instead(
        sys.modules["agentchat.orchestrator.models.anthropic.client"], "add_continuation", add_continuation
    )


def covers_more_than_was_summarised() -> Any:
    """A summary stands for runs that it was to leave as they are."""

    def through(conversation: Any, _trace_id: str, _runs: int) -> int:
        return int(conversation.runs[-1].version - 1)

    return _instead(
        sys.modules["agentchat.orchestrator.run.compact_history"], "find_last_covered_version", through
    )


FOUND_NEAR = {
    "no_fencing": 1006,
    "acknowledged_before_saved": 1104,
    "request_not_known_again": 1002,
    "begins_during_another": 1003,
    "every_tool_is_repeated": 1124,
    "ended_runs_have_their_calls_run": 1440,
    "resumed_behind_nothing": 1030,
    "offset_not_compared": 2265,
    "nobody_sweeps": 1500,
    "done_before_saved": 1001,
    "history_without_the_run_before": 1002,
    "lost_lease_is_nothing": 1150,
    "round_said_twice": 1005,
    "covers_more_than_was_summarised": 1031,
}
"""Each with a seed that finds it, where a search does well to begin."""
