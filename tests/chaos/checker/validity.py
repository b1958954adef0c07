"""I17: a run in which too little was done or hit proves nothing, and is invalid."""

from collections.abc import Iterator

from tests.chaos.checker.view import View
from tests.chaos.records import Ask, History

_WINDOW_SECONDS = 10.0
_OVERALL, _IN_A_WINDOW = 0.9, 0.5
_FEWEST = 5
"""A window with fewer messages says nothing."""


def done_ratio(view: View, asks: list[Ask] | None = None) -> float:
    """The share of messages, of those whose clients see them through, that were answered or cancelled."""
    wanted = [ask for ask in (view.history.asks if asks is None else asks) if _is_seen_through(view, ask)]
    done = [
        ask
        for ask in wanted
        if any(run.of("run_completed", "run_cancelled") for run in view.runs_of_ask[ask.ask])
    ]
    return len(done) / len(wanted) if wanted else 0.0


def _is_seen_through(view: View, ask: Ask) -> bool:
    return not ask.limited and any(each.keyed or each.probe for each in view.exchanges_of[ask.ask])


def why_invalid(history: History) -> list[str]:
    """Reasons for which the run does not count; none where it does."""
    view = View(history)
    return [*_too_little_done(view), *_too_little_hit(view), *_too_little_seen(view)]


def _too_little_done(view: View) -> Iterator[str]:
    if (ratio := done_ratio(view)) < _OVERALL:
        yield f"{ratio:.0%} of the messages were answered, {_OVERALL:.0%} are needed"
    began = {ask: each[0].began for ask, each in view.exchanges_of.items()}
    for number in range(int(view.history.final.healed / _WINDOW_SECONDS)):
        start = number * _WINDOW_SECONDS
        asks = [
            ask for ask in view.history.asks if start <= began.get(ask.ask, -1.0) < start + _WINDOW_SECONDS
        ]
        asks = [ask for ask in asks if _is_seen_through(view, ask)]
        if len(asks) < _FEWEST or view.faults_within(start, start + _WINDOW_SECONDS, "nats", "postgres"):
            continue
        if (ratio := done_ratio(view, asks)) < _IN_A_WINDOW:
            yield f"{ratio:.0%} of the messages were answered from {start:.0f} s on"


def _too_little_hit(view: View) -> Iterator[str]:
    kinds = {fault.kind for fault in view.history.faults}
    missed = kinds - {fault.kind for fault in view.history.faults if fault.hit}
    if missed:
        yield f"nothing was hit by {', '.join(sorted(missed))}"
    if not kinds:
        yield "there was no fault"


def _too_little_seen(view: View) -> Iterator[str]:
    seen = {
        "model calls": view.history.model,
        "tool executions": view.history.tools,
        "events": view.history.events,
        "refusals by limits": [each for each in view.history.exchanges if each.status == 429],
        "positions by the tailing reader": view.history.final.tailed,
        "proofs of the read models": view.history.final.replay,
    }
    for what, found in seen.items():
        if not found:
            yield f"no {what} were recorded"
    if not view.history.final.searched:
        yield "nothing was searched for secrets"
    if view.history.model and all(call.saved is None for call in view.history.model):
        yield "it was never known whether a message was saved before its model call"
