"""Run work once for several waiting callers."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def start_shared_task(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a task that several callers await, shielded. If all of them have gone, its failure is ignored."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task
