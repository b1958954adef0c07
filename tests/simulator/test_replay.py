"""A seed is a history: the same bytes each time, in whichever process."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulator.plan import plan_of
from tests.simulator.simulate import run
from tests.simulator.substitutes import substitute_modules

_ROOT = Path(__file__).parents[2]
_SEEDS = range(3)


def digest() -> str:
    """Of the histories of some seeds."""
    with substitute_modules():
        lines = [line for seed in _SEEDS for line in run(plan_of(seed), noting=True).history]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@pytest.mark.slow
def test_histories_do_not_depend_on_the_order_of_sets() -> None:
    here = digest()
    there = subprocess.run(
        [sys.executable, "-c", "from tests.simulator.test_replay import digest; print(digest())"],
        env=os.environ | {"PYTHONHASHSEED": "20", "PYTHONPATH": str(_ROOT)},
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert there.stdout.strip() == here
