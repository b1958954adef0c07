"""I13: tokens are counted as the model counted them, and the model is not called without need."""

from collections.abc import Iterator

from tests.chaos.checker.view import View, total
from tests.chaos.records import Violation

_TRIES = 3
"""Of one model call in one attempt: only while nothing of it was sent."""


_CLOCK_SECONDS = 10.0
"""What a worker's idea of Postgres' time may lag, where the answer that told it was late."""


def check_token_counts(view: View) -> Iterator[Violation]:
    """I13: token_count is the sum over the run's calls, and that of the model where none was lost."""
    for run in view.runs.values():
        recorded = sum(
            total(event.state["usage"])
            for event in run.of("model_replied", "context_compacted", "reply_lost")
        )
        for event in run.messages("assistant"):
            count = event.state["token_count"]
            if count < recorded:
                yield _v(run.trace, f"token_count {count}, and its events add up to {recorded}")
            calls = view.calls_of[run.ask]
            if len(calls) == len(run.of("model_replied")) and all(call.tokens is not None for call in calls):
                told = sum(call.tokens or 0 for call in calls)
                if told != count:
                    yield _v(run.trace, f"token_count {count}, and the model told {told}")


def calls(view: View) -> Iterator[Violation]:
    """I13: three tries a round at most, and one more for each time that the run was taken up again."""
    for run in view.runs.values():
        rounds = max((event.state["round"] for event in run.of("model_replied")), default=0) + 1
        again = len(run.of("run_started")) - 1
        made = len(view.calls_of[run.ask])
        if made > rounds * _TRIES + again:
            yield _v(run.trace, f"{made} model calls for {rounds} rounds, {again} times taken up again")
        last = run.of("run_completed", "run_failed", "run_cancelled")
        late = [call for call in view.calls_of[run.ask] if last and call.at > last[0].at + _CLOCK_SECONDS]
        if late:
            yield _v(run.trace, f"the model was called {late[0].at - last[0].at:.1f} s after the run's end")


def _v(of: str, evidence: str) -> Violation:
    return Violation(invariant="I13", of=of, evidence=evidence)
