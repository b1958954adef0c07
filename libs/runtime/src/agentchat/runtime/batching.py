"""Handle items that wait at the same time by one call, one call after another.

A single item waits for no others, and is never handled by a call that started before it came.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

import msgspec

A = TypeVar("A")
R = TypeVar("R")

Handle = Callable[[Sequence[A], float], Awaitable[Sequence[R | BaseException]]]
"""Take items and the deadline of the newest, by the loop's clock; return a result or an error for each.

If it raises, that error is the result of every item.
"""


class Batcher(Generic[A, R]):
    """Batches items in their order of arrival. Close it with `aclose`.

    Each item has `seconds`. At most `most` items go together, or those whose positions `select` returns: for
    items that must not go together. With `inline`, an item that is alone in its turn of the loop and finds
    nothing under way is handled in its caller's task, and cancelled with it: a task and a timer less.
    """

    def __init__(
        self,
        handle: Handle[A, R],
        *,
        most: int = 100,
        seconds: float = float("inf"),
        select: Callable[[Sequence[A]], Sequence[int]] | None = None,
        inline: bool = False,
    ) -> None:
        self._handle = handle
        self._is_inline = inline
        self._is_busy = False
        self._inline_ended: asyncio.Future[None] | None = None
        self._select = select or (lambda items: range(min(most, len(items))))
        self._seconds = seconds
        self._waiting: list[_Entry[A, R]] = []
        self._task: asyncio.Task[None] | None = None

    async def call(self, item: A) -> R:
        """Return the result for `item`. Raises the item's error, or TimeoutError when its time is over."""
        loop = asyncio.get_running_loop()
        entry: _Entry[A, R] = _Entry(item, loop.time() + self._seconds, loop.create_future())
        self._waiting.append(entry)
        if self._task is None and not self._is_busy:
            if self._is_inline:
                await self._handle_if_alone(entry)
            else:
                self._start()
        if entry.result.done() or self._seconds == float("inf"):
            return await entry.result
        timer = loop.call_at(entry.end, _settle, entry, TimeoutError())
        try:
            return await entry.result
        finally:
            timer.cancel()

    async def aclose(self, seconds: float = 0.0) -> None:
        """Handle what waits, for at most `seconds`, then cancel the callers that still wait for a batch."""
        if self._is_busy:
            self._inline_ended = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._inline_ended], timeout=seconds)
        task = self._task  # its end sets the attribute to None
        if task is not None:
            await asyncio.wait([task], timeout=seconds)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _handle_if_alone(self, entry: "_Entry[A, R]") -> None:
        """Handle an item in this task, or leave it to a batch with those of the same turn of the loop."""
        self._is_busy = True
        try:
            await asyncio.sleep(0)
            if self._waiting == [entry]:
                self._waiting = []
                (result,) = await self._handle([entry.item], entry.end)
                _settle(entry, result)
        except BaseException:
            entry.result.cancel()
            raise
        finally:
            self._is_busy = False
            if self._inline_ended is not None:
                self._inline_ended.set_result(None)
                self._inline_ended = None
            if self._waiting:
                self._start()

    def _start(self) -> None:
        """Handle batches in a task without the context of a caller: its log lines are about all of them."""
        self._task = asyncio.get_running_loop().create_task(self._run(), context=Context())

    async def _run(self) -> None:
        batch: list[_Entry[A, R]] = []
        try:
            while True:
                batch = self._take_next_batch()
                if not batch:
                    return
                try:
                    results = await self._handle([entry.item for entry in batch], batch[-1].end)
                except Exception as error:  # noqa: BLE001 - each caller raises it
                    results = [error] * len(batch)
                for entry, result in zip(batch, results, strict=True):
                    _settle(entry, result)
        finally:
            self._task = None
            for entry in (*batch, *self._waiting):
                entry.result.cancel()

    def _take_next_batch(self) -> "list[_Entry[A, R]]":
        """Return the items that go together next, leaving out those whose callers have gone."""
        waiting = [entry for entry in self._waiting if not entry.result.done()]
        places = set(self._select([entry.item for entry in waiting])) if waiting else set()
        self._waiting = [entry for place, entry in enumerate(waiting) if place not in places]
        return [waiting[place] for place in sorted(places)]


class _Entry(msgspec.Struct, Generic[A, R], frozen=True, eq=False):
    item: A
    end: float
    result: "asyncio.Future[R]"


def _settle(entry: _Entry[A, R], result: R | BaseException) -> None:
    if entry.result.done():  # its caller has gone, or its time was over
        return
    if isinstance(result, BaseException):
        entry.result.set_exception(result)
    else:
        entry.result.set_result(result)
