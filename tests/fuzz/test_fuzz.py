"""A short run of what `make fuzz` does at length."""

import asyncio
from pathlib import Path

import pytest

from tests.fuzz.agents import target_of
from tests.fuzz.schemathesis_run import run_schemathesis
from tests.harness import RunningStack


@pytest.mark.slow
async def test_generated_requests_find_nothing(stack: RunningStack, tmp_path: Path) -> None:
    target = await target_of(stack)
    chat = ("chat", "streamChat")
    cheap = [option for name in chat for option in ("--exclude-operation-id", name)]
    dear = [option for name in chat for option in ("--include-operation-id", name)]
    outcomes = await asyncio.gather(
        *(
            asyncio.to_thread(run_schemathesis, target, tmp_path, options, seed=seed)
            for seed, options in (
                (1, ["--exclude-tag", "admin", *cheap, "--phases", "examples,coverage"]),
                (2, [*dear, "--phases", "examples,fuzzing", "--max-examples", "3"]),
            )
        )
    )
    for outcome in outcomes:
        assert outcome.passed, outcome.said
    assert sum(outcome.cases for outcome in outcomes) > 100
