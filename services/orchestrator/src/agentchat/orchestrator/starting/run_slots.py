"""A run's slot among those that its account may have at once.

The gateway takes it with the request. Who waits in line gives it back, and takes one again before his run
begins: by the plan as it is then, without a further token of the rate.
"""

import msgspec
from msgspec.structs import replace

from agentchat.directory.plans import load_plan
from agentchat.orchestrator.request_stages import LeasedRequest, ReceivedRequest
from agentchat.orchestrator.run.run_clock import RunClock
from agentchat.orchestrator.services import WorkerServices

_FRESH_SECONDS = 2.0


class NoSlotYet(Exception):  # noqa: N818 - a state of things
    """A run that has waited for a person is to go on, and its account has no slot to spare."""


class NoSlot(msgspec.Struct, frozen=True):
    """The account has no slot to spare: why, and when one may be free."""

    code: str
    retry_after_s: int


async def take_slot(services: WorkerServices, leased: LeasedRequest, *, waited: bool) -> NoSlot | None:
    """Have a slot for the request, taken here if it had none; NoSlot where none is to be had.

    What came straight from its gateway has one and is not asked; an operator's has none. Raises
    DatabaseUnavailable.
    """
    if not waited and leased.request.agent_version is None and is_fresh(leased, leased.clock):
        return None
    return await _admit(services, leased)


async def _admit(services: WorkerServices, leased: LeasedRequest) -> NoSlot | None:
    request = leased.request
    plan = await load_plan(services.pool, request.account_id)
    if plan is None:  # the account was deleted: what it may do is decided elsewhere
        return None
    plan = replace(plan, requests_per_minute=None)
    admission = await services.limiter.admit(request.account_id, plan, request.trace_id)
    if admission.allowed:
        return None
    return NoSlot("rate_limited", admission.retry_after_s or 0)


async def take_slot_again(services: WorkerServices, leased: LeasedRequest) -> None:
    """Take a slot for a run that continues.

    Raises NoSlotYet, DatabaseUnavailable.
    """
    if await _admit(services, leased) is not None:
        raise NoSlotYet(leased.trace_id)


async def release_slot(services: WorkerServices, leased: LeasedRequest) -> None:
    await services.limiter.release(leased.request.account_id, leased.trace_id)


def is_fresh(received: ReceivedRequest, clock: RunClock) -> bool:
    """Of an older request the gateway may have given the slot back, of a redelivered one another worker."""
    age = clock.seconds_since(received.request.requested_at)
    return received.delivery.attempt == 1 and age <= _FRESH_SECONDS
