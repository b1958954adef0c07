"""One round of each change of the primary: what clients were told is in the log, and EVENTS has the log."""

from pathlib import Path

import pytest

from tests.chaos.command import run_chaos


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_no_message_is_lost_when_postgres_fails_over(tmp_path: Path) -> None:
    arguments = f"--way synchronous --rounds 1 --streams 4 --pause 2 --output {tmp_path}"
    code, printed = await run_chaos("failover", *arguments.split())
    assert code == 0, printed
