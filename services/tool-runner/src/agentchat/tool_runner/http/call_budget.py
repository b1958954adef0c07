"""Bound what one call, listing or handshake may cost, wherever in the MCP client its requests are made.

The client sends each message in the context of the task that requested it, so a context variable reaches the
HTTP transport, which spends from the budget and leaves in it why it failed.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from agentchat.runtime.fair_slots import KeySlots
from agentchat.tool_runner.faults import ToolFault

RESPONSE_BYTES = 2 * 1024 * 1024
"""Decoded bytes that all responses of one call may hold together."""
LARGE_BYTES = 256 * 1024
"""A call whose responses hold more needs a place among the large ones."""

LARGE_AT_ONCE = 8
"""Large responses that are read at a time, of all accounts. They bound the memory of this process: parsed, a
response of 2 MiB is 20 MB.
"""
BRACKETS = 200_000
"""Opening brackets that the responses of one call may hold, those within strings included.

Parsed, an object takes 25 times its two bytes, and one that is no valid content far more. Looking for the
ends of strings would let a server hide brackets by a quote outside of JSON.
"""
_LARGE_SECONDS = 5.0
_UNREQUESTED_SECONDS = 5.0


class TooLarge(Exception):  # noqa: N818 - an outcome
    """The budget has used up its bytes."""


class CallBudget:
    """A deadline (on the loop's clock), a number of bytes, and the first fault that explains a failure."""

    def __init__(self, deadline: float, max_bytes: int = LARGE_BYTES) -> None:
        self.deadline = deadline
        self.fault: ToolFault | None = None
        self._max_bytes = max_bytes
        self._bytes = 0
        self._brackets = 0
        self._place: KeySlots | None = None
        self._closed = False

    def fail(self, fault: ToolFault) -> None:
        """Keep `fault`, unless an earlier one says more."""
        if self.fault is None or self.fault.soft:
            self.fault = fault

    def succeed(self) -> None:
        """Forget a soft fault: a sound response came, so earlier ones no longer explain anything."""
        if self.fault is not None and self.fault.soft:
            self.fault = None

    async def take(self, chunk: bytes, large: KeySlots) -> None:
        """Count decoded bytes of a response, and wait for a place if they make it large.

        A large response has to arrive within 5 s from then. Raises TooLarge, also once the budget is closed.
        """
        self._bytes += len(chunk)
        self._brackets += chunk.count(b"{") + chunk.count(b"[")
        if self._closed or self._bytes > self._max_bytes or self._brackets > BRACKETS:
            raise TooLarge
        if self._bytes > LARGE_BYTES and self._place is None:
            async with asyncio.timeout_at(self.deadline):
                await large.take()
            self._place = large
            self.deadline = min(self.deadline, asyncio.get_running_loop().time() + _LARGE_SECONDS)

    def close(self) -> None:
        """Give back the place: nobody waits for a response any more."""
        self._closed = True
        if self._place is not None:
            self._place.release()
            self._place = None


_current: ContextVar[CallBudget | None] = ContextVar("call_budget", default=None)


@contextlib.contextmanager
def budget_until(deadline: float) -> Iterator[CallBudget]:
    """Spend what is sent within this block from one new budget."""
    budget = CallBudget(deadline, RESPONSE_BYTES)
    token = _current.set(budget)
    try:
        yield budget
    finally:
        _current.reset(token)
        budget.close()


def begin_budget(deadline: float) -> CallBudget:
    """Spend what this task and the tasks that it starts send from now on from a new budget."""
    budget = CallBudget(deadline)
    _current.set(budget)
    return budget


def current_budget() -> CallBudget:
    """Return the budget of this context; a short one for what the client sends by itself, such as replies."""
    now = asyncio.get_running_loop().time()
    budget = _current.get()
    if budget is None or budget.deadline <= now:
        return CallBudget(now + _UNREQUESTED_SECONDS)
    return budget
