"""Pure functions from a history to the invariants that it violates, I1 to I16, and to its validity, I17.

The invariants are those of interface specification, section 16.
"""

from typing import NamedTuple

from tests.chaos.checker import cost, limits, messages, rest, runs, streams, tenants, tools
from tests.chaos.checker.validity import why_invalid
from tests.chaos.checker.view import View
from tests.chaos.records import History, Violation

__all__ = ["INVARIANTS", "check", "judge", "why_invalid"]

INVARIANTS = tuple(f"I{number}" for number in range(1, 18))
_LOG_AGAINST_OTHERS = (
    *(messages.kept_once, messages.saved_before_the_call, messages.done_is_saved),
    *(streams.ends_in_time, runs.shown_to_the_model),
    *(tools.check_executions, tools.check_results, tools.allowed),
    *(cost.check_token_counts, cost.calls),
)
"""Compare the log with what clients, the model and tools saw. They read events that a fail-over can lose."""
_OTHERS = (
    *(messages.one_outcome, runs.one_at_a_time, runs.stored_form, runs.seen_once),
    *(streams.grammar, streams.check_trace_ids),
    *(rest.at_rest, rest.answers_again, rest.replays),
    *(tenants.kept_apart, tenants.secrets),
    *(limits.rate, limits.check_concurrent_runs, limits.retry_after),
)
"""Read the log by itself, or do not read it: they hold for conversations that lost events too."""


class Judgement(NamedTuple):
    """The violations of a history, and those that lost events explain."""

    violations: list[Violation]
    left_out: list[Violation]


def judge(history: History) -> Judgement:
    """Find every violation of I1 to I16."""
    view = View(history)
    judgement = Judgement([violation for each in _OTHERS for violation in each(view)], [])
    for each in _LOG_AGAINST_OTHERS:
        for violation in each(view):
            kind = judgement.left_out if violation.of in view.lost else judgement.violations
            kind.append(violation)
    return judgement


def check(history: History) -> list[Violation]:
    """Return every violation of I1 to I16 that lost events do not explain."""
    return judge(history).violations
