"""Work that several wait for."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def shared(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task that several await, shielded; if they have all gone, its failure is nobody's."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task
