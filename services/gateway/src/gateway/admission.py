"""The plan's limits at the door, and the headers that tell of them.

Headers: IETF draft-ietf-httpapi-ratelimit-headers (RateLimit-Policy, RateLimit), and Retry-After.
"""

import contextlib
from collections.abc import AsyncIterator

from directory.caller import Caller
from gateway.exchange import Exchange
from gateway.problems import Refusal
from limits import Admission, Limiter

_WINDOW_SECONDS = 60


class Slot:
    """A place among the account's concurrent runs. What is `handed_over` is the orchestrator's to free."""

    def __init__(self) -> None:
        self.handed_over = False


@contextlib.asynccontextmanager
async def admitted(exchange: Exchange, limiter: Limiter, caller: Caller) -> AsyncIterator[Slot]:
    """Take a token of the rate and a slot, which is freed behind the block unless it was handed over.

    Raises Refusal: 429 with Retry-After. A slot that nobody frees ends with its lease, within a minute.
    """
    admission = await limiter.admit(caller.account_id, caller.plan, exchange.trace_id)
    exchange.headers += _headers(admission)
    if not admission.allowed:
        raise Refusal(admission.code or "rate_limited", retry_after=admission.retry_after_s)
    slot = Slot()
    try:
        yield slot
    finally:
        if not slot.handed_over:
            await limiter.release(caller.account_id, exchange.trace_id, 0)


def _headers(admission: Admission) -> list[tuple[bytes, bytes]]:
    if admission.limit is None:
        return []
    policy = f'"minute";q={admission.limit};w={_WINDOW_SECONDS}'
    state = f'"minute";r={admission.remaining};t={admission.reset_s}'
    return [(b"ratelimit-policy", policy.encode()), (b"ratelimit", state.encode())]
