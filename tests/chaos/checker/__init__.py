"""Pure functions from a history to the invariants that it violates, I1 to I16, and to its validity, I17.

The invariants are those of interface specification, section 16.
"""

from tests.chaos.checker import cost, limits, messages, rest, runs, streams, tenants, tools
from tests.chaos.checker.validity import why_invalid
from tests.chaos.checker.view import View
from tests.chaos.records import History, Violation

__all__ = ["INVARIANTS", "check", "why_invalid"]

INVARIANTS = tuple(f"I{number}" for number in range(1, 18))
_CHECKS = (
    *(messages.kept_once, messages.saved_before_the_call, messages.one_outcome, messages.done_is_saved),
    *(streams.grammar, streams.ends_in_time, streams.named),
    *(rest.at_rest, rest.answers_again, rest.replays),
    *(runs.one_at_a_time, runs.shown_to_the_model, runs.stored_form, runs.seen_once),
    *(tools.executed, tools.returned, tools.allowed),
    *(tenants.kept_apart, tenants.secrets),
    *(cost.counted, cost.calls),
    *(limits.rate, limits.concurrent, limits.retry_after),
)


def check(history: History) -> list[Violation]:
    """Every violation of I1 to I16."""
    view = View(history)
    return [violation for each in _CHECKS for violation in each(view)]
