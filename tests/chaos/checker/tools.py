"""I10: a tool that writes runs once, no tool runs unasked, and a result that is told was there."""

from collections.abc import Iterator

from tests.chaos.checker.view import View
from tests.chaos.plan import TOOLS
from tests.chaos.records import ToolRun, Violation


def executed(view: View) -> Iterator[Violation]:
    """I10: no more executions than calls; of a tool that may be repeated, one more a fault meanwhile."""
    for ask, runs in view.tool_runs_of.items():
        for tool in TOOLS:
            done = [run for run in runs if run.tool == tool]
            asked = _calls(view, ask, tool)
            spare = 0 if tool == "note" else _faults(view, ask)
            if len(done) > asked + spare:
                times = ", ".join(f"{run.at:.2f}" for run in done)
                yield _v(ask, f"{tool} ran {len(done)} times (at {times} s) for {asked} calls")


def returned(view: View) -> Iterator[Violation]:
    """I10: a result that is no error is of a tool that ran; one that ran and never answered has none."""
    for run in view.runs.values():
        names = {event.state["call_id"]: event.state["name"] for event in run.of("tool_called")}
        for event in run.of("tool_returned"):
            tool = names.get(event.state["call_id"], "?")
            done = [each for each in view.tool_runs_of[run.ask] if each.tool == tool]
            if not event.state["is_error"] and not _any_answered(done):
                yield _v(run.ask, f"{tool} has a result, and never ran: {event.state['output'][:80]}")


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
