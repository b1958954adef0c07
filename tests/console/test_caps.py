"""How much one session may hold open: streams and experiments."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from bus import Bus
from console.frame.running_experiments import Experiments, RunningExperiment
from console.live.broadcast import OpenStreams
from contracts.admin_errors import Conflict
from conversations.event_store.log import Log
from experiments.chosen_runs import Estimate
from experiments.experiment import Candidate, Experiment
from experiments.prices import Prices
from tests.console.pages import Browser, text_of


async def endless() -> AsyncGenerator[bytes, None]:
    while True:
        yield b"event"


async def test_a_session_and_a_process_have_so_many_streams() -> None:
    streams = OpenStreams(most_of_session=2, most_of_process=3)
    opened = [streams.counted(session, endless(), None) for session in ("a", "a", "b")]
    for each in opened:
        await anext(each)
    assert "You have 2 live pages open" in str(streams.refusal("a"))
    assert "3 live pages are open at this console" in str(streams.refusal("c"))
    await opened[0].aclose()
    assert streams.refusal("a") is None
    await opened[1].aclose()
    await opened[2].aclose()
    assert streams.refusal("c") is None


async def test_a_stream_ends_with_its_session() -> None:
    streams = OpenStreams(most_of_session=1)
    source = endless()
    assert [each async for each in streams.counted("a", source, 0.0)] == []
    assert streams.refusal("a") is None
    with pytest.raises(StopAsyncIteration):
        await anext(source)


async def test_a_live_page_too_many_is_refused_in_words(browser: Browser) -> None:
    await browser.get("/health")
    opened = []
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(20):
            response = await stack.enter_async_context(browser.http.stream("GET", "/now/stream"))
            opened.append(response.aiter_raw())  # one that is let go closes its connection
            await anext(opened[-1])
        refused = await browser.get("/now/stream", **{"hx-request": "true"})
        assert (refused.status_code, refused.headers["hx-retarget"]) == (429, "#trouble")
        assert "You have 20 live pages open" in text_of(refused.text)


async def test_a_session_and_a_process_run_so_many_experiments(bus: Bus, log: Log) -> None:
    candidate = Candidate(account_id="a", agent_id="g", version=1)

    def started(session_id: str) -> RunningExperiment:
        agent: Any = None
        return RunningExperiment(
            Experiment(bus, log, candidate, [], prices=Prices()),
            agent,
            Estimate(runs=0, tokens=0, cost=None, seconds=0.0),
            of_version=1,
            changes=(),
            actor="console:ada",
            session_id=session_id,
            begun_at="",
        )

    async with Experiments.opened() as experiments:
        for session in "aabbcc":
            experiments.check_room(session)
            experiments.add(started(session))
        with pytest.raises(Conflict, match="2 experiments of yours run already"):
            experiments.check_room("a")
        with pytest.raises(Conflict, match="6 experiments run at this console already"):
            experiments.check_room("d")
        for each in experiments.newest(6):
            await each.until_ended()
        experiments.check_room("a")
