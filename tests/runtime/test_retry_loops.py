"""Work is called again while something is away, for a limited time."""

import pytest

from agentchat.runtime.retry_loops import retry


@pytest.mark.parametrize(("failures", "seconds", "calls"), [(0, 0.0, 1), (3, 60.0, 4)])
async def test_work_is_retried_until_it_succeeds(failures: int, seconds: float, calls: int) -> None:
    count = 0

    async def work() -> str:
        nonlocal count
        count += 1
        if count <= failures:
            raise ConnectionError
        return "done"

    assert await retry(work, ConnectionError, pause_seconds=0.0, seconds=seconds) == "done"
    assert count == calls


@pytest.mark.parametrize("error", [ConnectionError, ValueError])
async def test_last_or_foreign_error_is_raised(error: type[Exception]) -> None:
    async def work() -> None:
        raise error

    with pytest.raises(error):
        await retry(work, ConnectionError, pause_seconds=0.0, seconds=-1.0)
