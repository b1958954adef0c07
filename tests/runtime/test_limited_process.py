"""Work in a process of its own ends at its limits, and the next request finds a new process."""

import asyncio
import contextlib

import pytest

from agentchat.runtime.limited_process import LimitedProcess, ProcessEnded


def start_process() -> LimitedProcess:
    return LimitedProcess("tests.runtime.limited_worker", patience_seconds=30.0)


@pytest.mark.parametrize(("work", "timed_out"), [(b"loop", True), (b"allocate", False), (b"write", False)])
async def test_limits_end_the_process(work: bytes, timed_out: bool) -> None:
    async with contextlib.aclosing(start_process()) as process:
        assert await process.ask(b"first", 5.0) == b"FIRST"
        with pytest.raises(ProcessEnded) as ended:
            await process.ask(work, 0.2)
        assert ended.value.timed_out == timed_out
        assert await process.ask(b"next", 5.0) == b"NEXT"


async def test_cancelled_request_leaves_no_answer_behind() -> None:
    async with contextlib.aclosing(start_process()) as process:
        asked = asyncio.create_task(process.ask(b"loop", 30.0))
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.wait((asked,))
        assert await process.ask(b"next", 5.0) == b"NEXT"
