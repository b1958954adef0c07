"""One round of each change of the primary: what clients were told is in the log, and EVENTS has the log."""

from pathlib import Path

import pytest

from tests.chaos.failover import record
from tests.chaos.report import outcome_of


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_no_message_is_lost_when_postgres_fails_over(tmp_path: Path) -> None:
    history, differences = await record(
        "synchronous", tmp_path / "run", seed=1, rounds=1, streams=4, pause=2.0
    )
    assert differences == []
    outcome = outcome_of("", history)
    assert not outcome.failed, outcome.text
    assert outcome.invalid == [], outcome.text
