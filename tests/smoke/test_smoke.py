"""The checks of `python -m tests.smoke`, with the offline model in the place of a provider."""

import asyncio

import pytest

from tests.harness import RunningStack
from tests.smoke.__main__ import report_of, run_checks
from tests.smoke.checks import Provider

pytestmark = pytest.mark.slow

_OFFLINE_CANNOT = {
    "structured output",
    "thinking",
    "prompt cache",
    "long reply",
    "cancel",
    "stream",
    "complete reply",
}
"""The offline model counts to no number, thinks nothing and takes any key."""


async def test_checks_run_and_report(stack: RunningStack) -> None:
    provider = Provider(name="anthropic", model="demo-shop-1?delay_ms=5")
    results = await asyncio.to_thread(list, run_checks(stack, provider))
    failed = {each.check: each.words for each in results if not each.passed}
    assert failed.keys() <= _OFFLINE_CANNOT, failed
    report = report_of(results, {"anthropic": provider.model})
    assert report.count("\n| anthropic | ") == len(results) == 12
