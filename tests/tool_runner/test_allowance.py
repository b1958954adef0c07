"""How much of RESULTS one account may take."""

import asyncio
import json

import pytest

from bus import Bus
from bus.streams import STREAMS
from directory.agents import McpServer
from runtime import logs
from runtime.settings import load
from tests.tool_runner.runner import Calls, environ, make_agent
from tests.tool_runner.scripted import Call, serving, tool
from tool_runner import worker
from tool_runner.allowance import ACCOUNT_BYTES, WINDOW_SECONDS, Allowance
from tool_runner.settings import Settings

pytestmark = pytest.mark.requirement("RESULTS-SHARE")


def test_an_account_is_refused_what_exceeds_its_share_and_others_are_not() -> None:
    allowance = Allowance(100)
    assert allowance.take("a", 60, now=0.0)
    assert not allowance.take("a", 50, now=1.0)
    assert allowance.take("b", 100, now=1.0)
    assert allowance.take("a", 40, now=2.0)


def test_what_was_published_a_window_ago_counts_no_more() -> None:
    allowance = Allowance(100)
    assert allowance.take("a", 60, now=0.0)
    assert allowance.take("a", 40, now=30.0)
    assert not allowance.take("a", 1, now=WINDOW_SECONDS)
    assert allowance.take("a", 60, now=WINDOW_SECONDS + 1)
    assert not allowance.take("a", 1, now=WINDOW_SECONDS + 2)


def test_a_share_is_a_small_part_of_the_stream() -> None:
    (results,) = (stream for stream in STREAMS if stream["name"] == "RESULTS")
    assert results["max_bytes"] >= 8 * ACCOUNT_BYTES


async def test_a_call_beyond_the_share_is_answered_with_an_error_and_another_account_is_served(
    fresh_nats_url: str, migrated_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(call: Call) -> None:
        await call.text(json.dumps("x" * 1000))

    monkeypatch.setattr(logs, "configure", lambda *_: None)  # this process has its own
    monkeypatch.setattr(worker, "Allowance", lambda: Allowance(1500))
    stop = asyncio.Event()
    async with serving(answer, [tool("big", readOnlyHint=True)]) as scripted:
        server = McpServer(name="scripted", url=scripted.url)
        one, other = [await make_agent(migrated_database_url, server) for _ in range(2)]
        allow = [f"127.0.0.1:{scripted.port}"]
        settings = load(Settings, environ(fresh_nats_url, migrated_database_url, allow))
        async with Bus.connect(fresh_nats_url, name="test") as bus:
            runner = asyncio.create_task(
                worker.work(settings, "runner", settings.guard(), settings.sealer(), stop)
            )
            calls = Calls(bus)
            assert not (await calls.finish(one.call("big"))).is_error
            refused = await calls.finish(one.call("big"))
            assert not (await calls.finish(other.call("big"))).is_error
            stop.set()
            await runner
    assert refused.is_error
    assert "returned too much" in json.loads(refused.output)["error"]
