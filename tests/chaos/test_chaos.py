"""A short run with a fixed seed: every invariant holds while the stack is hurt about once a second."""

import pytest

from tests.chaos.command import run_chaos
from tests.chaos.run import OUTPUT

SEED = 31443


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_no_invariant_is_violated_while_processes_and_links_fail() -> None:
    arguments = f"--seed {SEED} --requests 40 --minutes 0.2 --every 1 --longest 3 --rebuilds 0"
    code, printed = await run_chaos("faults", *arguments.split(), "--output", str(OUTPUT / "test"))
    assert code == 0, printed
