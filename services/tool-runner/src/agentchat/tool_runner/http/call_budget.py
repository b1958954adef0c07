"""Limit the time and bytes of one call, listing or handshake.

The MCP client sends each message in the context of the task that requested it. So a context variable carries
the budget to the HTTP transport, which spends from it and records in it why a request failed.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from agentchat.runtime.fair_slots import KeySlots
from agentchat.tool_runner.faults import ToolFault

RESPONSE_BYTES = 2 * 1024 * 1024
"""The most bytes in all responses of one call together."""
LARGE_BYTES = 256 * 1024
"""A call whose responses are larger needs one of LARGE_AT_ONCE places."""

LARGE_AT_ONCE = 8
"""The most large responses that are read at a time, over all accounts.

This limits the memory of the process: a response of 2 MiB takes 20 MB when it is parsed.
"""
BRACKETS = 200_000
"""The most opening brackets in the responses of one call, including those inside strings.

A parsed object takes 25 times its two bytes, and invalid content far more. Skipping strings would let a
server hide brackets behind a quote outside of JSON.
"""
_LARGE_SECONDS = 5.0
_UNREQUESTED_SECONDS = 5.0


class TooLarge(Exception):  # noqa: N818 - an outcome
    """The responses of the call exceed its budget."""


class CallBudget:
    """A deadline on the loop's clock, a number of bytes, and the first fault of the call."""

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
        """Forget a soft fault: a valid response came, so the fault no longer explains a failure."""
        if self.fault is not None and self.fault.soft:
            self.fault = None

    async def take(self, chunk: bytes, large: KeySlots) -> None:
        """Count the bytes of a response, and wait for a place once the responses are large.

        A large response must arrive within 5 s from then.

        Raises:
            TooLarge: The budget is exceeded or closed.
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
        """Release the place: no caller waits for a response any more."""
        self._closed = True
        if self._place is not None:
            self._place.release()
            self._place = None


_current: ContextVar[CallBudget | None] = ContextVar("call_budget", default=None)


@contextlib.contextmanager
def open_budget(deadline: float) -> Iterator[CallBudget]:
    """Use a new budget for the requests of this block."""
    budget = CallBudget(deadline, RESPONSE_BYTES)
    token = _current.set(budget)
    try:
        yield budget
    finally:
        _current.reset(token)
        budget.close()


def start_budget(deadline: float) -> CallBudget:
    """Use a new budget for the later requests of this task and of the tasks that it starts."""
    budget = CallBudget(deadline)
    _current.set(budget)
    return budget


def get_current_budget() -> CallBudget:
    """Return the budget of this context.

    Requests that the client sends by itself, such as replies, get a new one of 5 s.
    """
    now = asyncio.get_running_loop().time()
    budget = _current.get()
    if budget is None or budget.deadline <= now:
        return CallBudget(now + _UNREQUESTED_SECONDS)
    return budget
