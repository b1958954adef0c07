"""A run's place among those that its account may have at once.

The gateway takes it with the request. Who waits in line gives it back, and takes one again before his run
begins: by the plan as it is then, without a further token of the rate.
"""

from msgspec.structs import replace

from directory.plans import plan_of
from orchestrator.assignment import Assignment
from orchestrator.parts import Parts

_FRESH_SECONDS = 2.0


async def has_slot(parts: Parts, assignment: Assignment) -> bool:
    """Whether the request has a place, taken here if it had none; why not is then `assignment.no_slot`.

    What came straight from its gateway has one and is not asked. Raises DatabaseUnavailable.
    """
    if _is_fresh(assignment):
        return True
    request = assignment.request
    plan = await plan_of(parts.pool, request.account_id)
    if plan is None:  # the account was deleted: what it may do is decided elsewhere
        return True
    plan = replace(plan, requests_per_minute=None)
    admission = await parts.limiter.admit(request.account_id, plan, request.trace_id)
    assignment.no_slot = None if admission.allowed else admission
    assignment.holds_slot = admission.allowed
    return admission.allowed


async def give_back(parts: Parts, assignment: Assignment) -> None:
    """Hold no place any longer: the request waits."""
    if assignment.holds_slot:
        assignment.holds_slot = False
        await parts.limiter.release(assignment.request.account_id, assignment.trace_id)


def _is_fresh(assignment: Assignment) -> bool:
    """Of an older request the gateway may have given the place back, of a redelivered one another worker."""
    age = assignment.clock.seconds_since(assignment.request.requested_at)
    return assignment.holds_slot and assignment.delivery.attempt == 1 and age <= _FRESH_SECONDS
