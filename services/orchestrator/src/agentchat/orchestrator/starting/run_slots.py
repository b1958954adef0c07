"""Take and release a run's slot among the concurrent runs of its account.

The gateway takes it with the request. A request in line releases it and takes one again before its run
starts, by the plan as of then and without another token of the rate limit.
"""

import msgspec

from agentchat.directory.plans import load_plan
from agentchat.orchestrator.request_stages import LeasedRequest, ReceivedRequest
from agentchat.orchestrator.run.run_clock import RunClock
from agentchat.orchestrator.services import WorkerServices

_FRESH_SECONDS = 2.0


class NoSlotYet(Exception):  # noqa: N818 - a state of things
    """A run that has waited for an approval is to continue, and its account has no free slot."""


class NoSlot(msgspec.Struct, frozen=True):
    """The account has no free slot: the error code, and when one may be free."""

    code: str
    retry_after_s: int


async def take_slot(services: WorkerServices, leased: LeasedRequest, *, waited: bool) -> NoSlot | None:
    """Take a slot for the request unless its gateway has taken one. Raises DatabaseUnavailable.

    A fresh request from a gateway holds one already; an operator's request holds none.
    """
    if not waited and leased.request.agent_version is None and is_fresh(leased, leased.clock):
        return None
    return await _admit(services, leased)


async def _admit(services: WorkerServices, leased: LeasedRequest) -> NoSlot | None:
    request = leased.request
    if request.depth > 0:  # the run of the agent that called it has one
        return None
    plan = await load_plan(services.pool, request.account_id)
    if plan is None:  # the account was deleted; another check handles that
        return None
    admission = await services.limiter.admit(
        request.account_id, plan.drop_rates(), request.trace_id, user_id=request.user_id
    )
    if admission.allowed:
        return None
    return NoSlot("user_rate_limited" if admission.by_user else "rate_limited", admission.retry_after_s)


async def take_slot_again(services: WorkerServices, leased: LeasedRequest) -> None:
    """Take a slot for a run that continues.

    Raises:
        NoSlotYet, DatabaseUnavailable
    """
    if await _admit(services, leased) is not None:
        raise NoSlotYet(leased.trace_id)


async def release_slot(services: WorkerServices, leased: LeasedRequest) -> None:
    """Release the request's slot."""
    await services.limiter.release(leased.request.account_id, leased.trace_id)


def is_fresh(received: ReceivedRequest, clock: RunClock) -> bool:
    """Return True if the gateway still holds the slot: the request is young and delivered first."""
    age = clock.seconds_since(received.request.requested_at)
    return received.delivery.attempt == 1 and age <= _FRESH_SECONDS
