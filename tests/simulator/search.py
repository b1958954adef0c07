"""Seeds tried one after another, and what is found made small and readable."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from tests.simulator.plan import Plan, Request, plan_of
from tests.simulator.simulate import Outcome, run
from tests.simulator.substitutes import substitute_modules

_MAX_RUNS = 400


def first_failure(seeds: Iterable[int]) -> Outcome | None:
    """The first of these seeds in whose history something is broken."""
    with substitute_modules():
        for seed in seeds:
            outcome = run(plan_of(seed))
            if outcome.violations:
                return outcome
    return None


def search_seeds(seeds: range) -> tuple[int, Outcome | None]:
    """How many it looked at, and the first failure: for a spawned process, which finds no `__main__`."""
    return len(seeds), first_failure(seeds)


def report_of(failure: Outcome) -> str:
    """The failure, shrunk, with its history, and how to have it again."""
    with substitute_modules():
        small = run(shrink_plan(failure.plan), noting=True)
    plan = small.plan
    return "\n".join(
        [
            f"seed {plan.seed}: {failure.violations[0]}",
            f"again: make simulate SEEDS=1 FROM={plan.seed}",
            "",
            "shrunk to:",
            f"  prefill {plan.prefill}, pace {plan.pace}, {plan.max_tool_rounds} rounds of tools,"
            f" on interruption {plan.on_interruption}, runs kept {plan.keep_runs}",
            *(f"  {_line_of(request)}" for request in plan.requests),
            *(f"  fault: {fault}" for fault in plan.faults),
            "",
            *small.history,
            "",
            *small.violations,
        ]
    )


def shrink_plan(plan: Plan) -> Plan:
    """A plan that breaks the same invariant with fewer faults, requests, rounds and pieces.

    To be called within `simulated`.
    """
    wanted = _kind_of(run(plan))
    runs = 0
    while True:
        for smaller in _list_smaller_plans(plan):
            runs += 1
            if runs > _MAX_RUNS:
                return plan
            if _kind_of(run(smaller)) == wanted:
                plan = smaller
                break
        else:
            return plan


def _kind_of(outcome: Outcome) -> str | None:
    """The first invariant that is broken."""
    return outcome.violations[0].partition(":")[0] if outcome.violations else None


def _list_smaller_plans(plan: Plan) -> Iterator[Plan]:
    """Plans that leave one thing out."""
    for number in range(len(plan.faults)):
        yield replace(plan, faults=(*plan.faults[:number], *plan.faults[number + 1 :]))
    for number in range(len(plan.requests)):
        yield replace(plan, requests=(*plan.requests[:number], *plan.requests[number + 1 :]))
    for number, request in enumerate(plan.requests):
        for less in _smaller_requests(request):
            requests = (*plan.requests[:number], less, *plan.requests[number + 1 :])
            yield replace(plan, requests=requests)


def _smaller_requests(request: Request) -> Iterator[Request]:
    if request.cancel_at is not None:
        yield replace(request, cancel_at=None)
    if request.calls:
        yield replace(request, rounds=request.rounds[1:], calls=request.calls[1:])
    for number, pieces in enumerate(request.rounds):
        if len(pieces) > 1:
            rounds = (*request.rounds[:number], pieces[:-1], *request.rounds[number + 1 :])
            yield replace(request, rounds=rounds)


def _line_of(request: Request) -> str:
    cancelled = "" if request.cancel_at is None else f", cancelled after {request.cancel_at:g} s"
    return (
        f"{request.key} at {request.at:g} s in thread {request.thread} by gateway {request.gateway + 1}"
        f"{'' if request.streaming else ', as JSON'}{cancelled}: {request.rounds} with {request.calls}"
    )
