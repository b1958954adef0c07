"""I10: a tool that writes runs once, no tool runs unasked, and a result that is told was there."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tests.chaos.checker.view import Run, View
from tests.chaos.plan import TOOLS
from tests.chaos.records import Event, ToolRun, Violation


def check_executions(view: View) -> Iterator[Violation]:
    """I10: no more executions than calls; of a tool that may be repeated, one more a fault meanwhile."""
    for ask, runs in view.tool_runs_of.items():
        for tool in TOOLS:
            done = [run for run in runs if run.tool == tool]
            asked = _calls(view, ask, tool)
            spare = 0 if tool == "note" else _faults(view, ask)
            if len(done) > asked + spare:
                times = ", ".join(f"{run.at:.2f}" for run in done)
                yield _v(ask, f"{tool} ran {len(done)} times (at {times} s) for {asked} calls")


def check_results(view: View) -> Iterator[Violation]:
    """I10: a result that is no error is of a tool that ran; one that ran and never answered has none."""
    for run in view.runs.values():
        names = {event.state["call_id"]: event.state["name"] for event in run.of("tool_called")}
        for event in run.of("tool_returned"):
            tool = names.get(event.state["call_id"], "?")
            done = [each for each in view.tool_runs_of[run.ask] if each.tool == tool]
            if not event.state["is_error"] and not _any_answered(done):
                yield _v(run.ask, f"{tool} has a result, and never ran: {event.state['output'][:80]}")


def allowed(view: View) -> Iterator[Violation]:
    """I10: what a person has to allow runs once with what was approved, and not before; or not at all."""
    for ask, runs in view.runs_of_ask.items():
        waited = {event.state["call_id"]: event for run in runs for event in run.of("approval_requested")}
        if not waited:
            continue
        approved = Counter(_approvals(runs, waited))
        for done in view.tool_runs_of[ask]:
            if done.tool not in {event.state["tool"] for event in waited.values()}:
                continue
            given = _encode_canonical(msgspec.json.decode(done.input))
            if not approved[given]:
                yield _v(ask, f"{done.tool} ran at {done.at:.2f} s with {given!r}, which nobody had approved")
            approved[given] -= 1


def _approvals(runs: Iterable[Run], waited: Mapping[str, Event]) -> Iterator[bytes]:
    """What calls were approved with."""
    call_of = {event.state["approval_id"]: call_id for call_id, event in waited.items()}
    for run in runs:
        inputs = {event.state["call_id"]: event.state["input"] for event in run.of("tool_called")}
        for event in run.of("approval_decided"):
            if event.state["decision"] == "approved" and event.state["approval_id"] in call_of:
                changed = event.state.get("input")
                yield _encode_canonical(changed or inputs[call_of[event.state["approval_id"]]])


def _encode_canonical(given: Any) -> bytes:
    return msgspec.json.encode(given, order="sorted")


def _any_answered(done: list[ToolRun]) -> bool:
    return any(run.answered for run in done)


def _calls(view: View, ask: str, tool: str) -> int:
    runs = view.runs_of_ask[ask]
    return sum(event.state["name"] == tool for run in runs for event in run.of("tool_called"))


def _faults(view: View, ask: str) -> int:
    runs = view.runs_of_ask[ask]
    end = view.history.seconds
    return sum(len(view.faults_within(run.began, min(run.ended, end))) for run in runs)


def _v(of: str, evidence: str) -> Violation:
    return Violation(invariant="I10", of=of, evidence=evidence)
