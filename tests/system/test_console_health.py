"""The page Health: a read model is compared with the log and built again, by a projector of the system."""

import asyncio

from tests.console.pages import Browser, text_of
from tests.harness import RunningStack
from tests.system.calling import Caller


async def test_jobs_begin_at_the_form_and_end_with_their_outcome(stack: RunningStack, caller: Caller) -> None:
    await caller.chat("Hello")
    async with Browser(stack.environment.console_url) as browser, asyncio.timeout(60):
        for action, begun, outcome in (
            ("verify", "Verification of runs", "verify runs ✓ equal console:local"),
            ("rebuild", "Rebuild of runs", "rebuild runs ✓ swapped console:local"),
        ):
            answer = text_of((await browser.post(f"/health/{action}", {"read_model": "runs"})).text)
            assert begun in answer or outcome in answer
            while outcome not in text_of((await browser.get("/health/read-models")).text):  # noqa: ASYNC110 - as people do
                await asyncio.sleep(0.1)
