"""How long the service took to be itself again after a fault, and what each fault hit: for the report."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.chaos.checker.view import Run, View
from tests.chaos.records import Exchange, Fault

Times = dict[str, list[float]]


def recoveries(view: View) -> Times:
    """Seconds by kind of recovery, each list in ascending order."""
    found: Times = defaultdict(list)
    for fault in view.history.faults:
        if not fault.hit:
            continue
        if fault.ready is not None:
            found[f"{fault.component} {fault.kind}: started to ready"].append(fault.ready - fault.until)
        for name, seconds in _of(view, fault):
            found[f"{fault.component} {fault.kind}: {name}"].append(seconds)
    return {name: sorted(max(0.0, one) for one in times) for name, times in sorted(found.items())}


def _of(view: View, fault: Fault) -> Iterator[tuple[str, float]]:
    if fault.component == "orchestrator" and fault.kind in ("kill", "term"):
        for run in _held_by(view, fault):
            later = [event.at for event in run.events if event.at > fault.at and event.kind == "run_started"]
            if later:
                yield "taken up again", later[0] - fault.at
    elif fault.target in ("nats", "postgres", "valkey"):
        began = fault.ready or fault.until
        firsts = [at for each in view.history.exchanges if (at := first_delta(each)) > began]
        if firsts:
            yield "ready to first delta", min(firsts) - began


def _held_by(view: View, fault: Fault) -> Iterator[Run]:
    """The runs that the process held when it was hit."""
    for run in view.runs.values():
        started = [event for event in run.of("run_started") if event.at <= fault.at]
        worker = str(started[-1].state.get("worker", "")) if started else ""
        if run.ended > fault.at and worker.startswith(fault.target):
            yield run


def first_delta(exchange: Exchange) -> float:
    """When it came; -1 where there is none."""
    seen = exchange.body.find('"type":"delta"')
    return next((at for at, length in exchange.arrivals if 0 <= seen < length), -1.0)


def steps(view: View) -> dict[str, Counter[str]]:
    """For each component, at which steps of how many runs its faults struck."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for fault in view.history.faults:
        if fault.hit:
            found[fault.component].update(
                _step(run, fault.at) for run in view.runs.values() if _lives(run, fault)
            )
    return dict(sorted(found.items()))


def _lives(run: Run, fault: Fault) -> bool:
    return run.began <= max(fault.until, fault.at) and run.ended >= fault.at


def _step(run: Run, at: float) -> str:
    """What the run was about when the fault began."""
    before = [event.kind for event in run.events if event.at <= at]
    if not before:
        return "before it began"
    last = before[-1]
    if last in ("tool_called", "tool_returned"):
        return "at its tools" if last == "tool_called" else "behind its tools"
    return "at its first reply" if "model_replied" not in before else "at a later reply"


def percentile(times: list[float], share: float) -> float:
    return times[min(len(times) - 1, int(len(times) * share))]
