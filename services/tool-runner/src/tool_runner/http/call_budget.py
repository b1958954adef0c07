"""What one call, listing or handshake may cost, wherever in the MCP client its requests are made.

The client sends each message in the context of the task that requested it, so a context variable reaches the
HTTP transport, which spends from it and leaves in it why it failed.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar

from runtime.fair_slots import KeySlots
from tool_runner.faults import ToolFault
from tool_runner.time_limit import deferred

RESPONSE_BYTES = 2 * 1024 * 1024
"""Decoded bytes that all responses of one call may hold together."""
LARGE_BYTES = 256 * 1024
"""Beyond this a call needs a place among the large ones: parsed, an answer is ten times its size."""

LARGE_AT_ONCE = 8
"""Large answers that are read at one time, of all accounts: they bound the memory of this process."""
_LARGE_SECONDS = 5.0
# An object or a list costs some 25 times its two bytes once it is parsed, so they are counted too.
_CONTAINERS = 200_000
_ASIDE_SECONDS = 5.0
_PROGRESS_BYTES = 4096
"""Of what a server sends while it reports progress, so many bytes a second are not counted."""


class TooLarge(Exception):  # noqa: N818 - an outcome
    """The budget has used up its bytes."""


class CallBudget:
    """A deadline (on the loop's clock), a number of bytes, and the first fault that explains a failure."""

    def __init__(self, deadline: float, max_bytes: int = LARGE_BYTES) -> None:
        self.deadline = deadline
        self.fault: ToolFault | None = None
        self._max_bytes = max_bytes
        self._bytes = 0
        self._containers = 0
        self._place: KeySlots | None = None
        self._closed = False
        self._deferred_at = asyncio.get_running_loop().time()
        self._reading: set[asyncio.Timeout] = set()

    def fail(self, fault: ToolFault) -> None:
        """Keep `fault`, unless an earlier one says more."""
        if self.fault is None or self.fault.soft:
            self.fault = fault

    def answered(self) -> None:
        """A sound answer came: what was wrong with the ones before it no longer explains anything."""
        if self.fault is not None and self.fault.soft:
            self.fault = None

    async def take(self, chunk: bytes, large: KeySlots) -> None:
        """Count decoded bytes of a response, and wait for a place where they make it large.

        Raises TooLarge, also once nobody waits for the answer. A large one is to come quickly from then on.
        """
        self._bytes += len(chunk)
        self._containers += chunk.count(b"{") + chunk.count(b"[")
        if self._closed or self._bytes > self._max_bytes or self._containers > _CONTAINERS:
            raise TooLarge
        if self._bytes > LARGE_BYTES and self._place is None:
            async with asyncio.timeout_at(self.deadline):
                await large.take()
            self._place = large
            self.deadline = min(self.deadline, asyncio.get_running_loop().time() + _LARGE_SECONDS)

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Raises TimeoutError at the deadline, which may be deferred meanwhile."""
        async with asyncio.timeout_at(self.deadline) as scope:
            self._reading.add(scope)
            try:
                yield
            finally:
                self._reading.remove(scope)

    def defer(self, until: float) -> None:
        """The server reports progress: it has until then, unless its answer is a large one."""
        now = asyncio.get_running_loop().time()
        self._bytes = max(0, self._bytes - round((now - self._deferred_at) * _PROGRESS_BYTES))
        self._deferred_at = now
        if self._place is None:
            self.deadline = until
            for scope in self._reading:
                deferred(scope, until)

    def close(self) -> None:
        """Nobody waits for an answer any more."""
        self._closed = True
        if self._place is not None:
            self._place.release()
            self._place = None


_current: ContextVar[CallBudget | None] = ContextVar("call_budget", default=None)


@contextlib.contextmanager
def budget_until(deadline: float) -> Iterator[CallBudget]:
    """What is sent within this block is spent from one new budget."""
    budget = CallBudget(deadline, RESPONSE_BYTES)
    token = _current.set(budget)
    try:
        yield budget
    finally:
        _current.reset(token)
        budget.close()


def begin_budget(deadline: float) -> CallBudget:
    """What this task and the tasks that it starts send from now on is spent from a new budget."""
    budget = CallBudget(deadline)
    _current.set(budget)
    return budget


def current() -> CallBudget:
    """The budget at hand; a short one of its own for what the client sends by itself, such as replies."""
    now = asyncio.get_running_loop().time()
    budget = _current.get()
    if budget is None or budget.deadline <= now:
        return CallBudget(now + _ASIDE_SECONDS)
    return budget
