"""The page Now: runs as they stream, figures, and what it says of a part that is away."""

import asyncio
import os

import msgspec
import pytest
from msgspec.structs import replace

from agentchat.bus.bus import Bus
from agentchat.console.live.metrics_history import build_point
from agentchat.console.live.metrics_scraper import Scrape
from agentchat.console.pages.now.now_board import build_charts
from agentchat.console.pages.now.open_runs import LastWords, NowFilter, OpenRuns, build_row
from agentchat.console.shared.sse_parts import encode_event
from agentchat.contracts import frames
from agentchat.contracts.values import Usage
from agentchat.conversations.queries.current_activity import OpenRun, open_runs
from agentchat.runtime.postgres import Pool
from tests.console.pages import Browser, extract_text
from tests.conversations.given import (
    ACCOUNT,
    build_held_call,
    build_run_failed,
    build_run_started,
    build_tool_called,
    build_user_message,
    trace,
    turn,
    use,
)
from tests.conversations.read_models import Storage


def make_words(count: int) -> list[str]:
    """Of traces that no other test has."""
    return [os.urandom(8).hex() for _ in range(count)]


async def test_open_runs_are_the_newest_with_what_each_waits_for(storage: Storage, pool: Pool) -> None:
    plain, calling, waiting = make_words(3)
    before, _ = await open_runs(pool, account_id=ACCOUNT, limit=2)
    await storage.add(build_user_message(plain), build_run_started(plain))
    await storage.add(
        build_user_message(calling),
        build_run_started(calling),
        *build_tool_called([use("call", "find_orders")], calling),
    )
    asks = build_held_call(waiting, "call")[:-1]
    await storage.add(build_user_message(waiting), build_run_started(waiting), *asks)
    await storage.follow()
    total, found = await open_runs(pool, account_id=ACCOUNT, limit=2)
    assert (total, len(found)) == (before + 3, 2)
    _, found = await open_runs(pool, agent_id="agent-1", limit=10)
    by_trace = {run.trace_id: run for run in found}
    assert by_trace[trace(plain)].tool is None
    assert by_trace[trace(calling)].tool == "find_orders"
    assert by_trace[trace(calling)].rounds == 1
    assert by_trace[trace(waiting)].waits_for == "get_order"
    assert await open_runs(pool, account_id="nobody", limit=10) == (0, [])


async def test_a_run_streams_into_the_page_of_every_browser(
    storage: Storage, bus: Bus, browser: Browser
) -> None:
    (word,) = make_words(1)
    thread = await storage.add(build_user_message(word), build_run_started(word))
    await storage.follow()

    async def wait_until(part: str) -> None:
        async with browser.http.stream("GET", "/now/stream") as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            text = ""
            async for piece in response.aiter_text():
                text += piece
                if part in text or part in extract_text(text.replace("data: ", "")):
                    return

    async def stream_words() -> None:
        for offset in range(0, 400, 5):
            delta = frames.DeltaFrame(seq=offset + 1, attempt=1, round=1, text="word ", offset=offset)
            await bus.traces.publish_frame(trace(word), delta)
            await asyncio.sleep(0.05)

    async with asyncio.timeout(30):
        await wait_until(f"/conversations/{thread.conversation_id}?run={trace(word)}")
        speaking = asyncio.create_task(stream_words())
        await asyncio.gather(wait_until("word word"), wait_until("word word"))
        await speaking
    assert "word word" not in await browser.open_page("/now?agent=nobody")


async def test_a_conversation_streams_no_run_of_another(storage: Storage, bus: Bus, browser: Browser) -> None:
    """The audit log has the conversation that was asked for."""
    own, other = make_words(2)
    thread = await storage.add(*turn(own, "Hello", "Hi"))
    await storage.add(build_user_message(other), build_run_started(other))
    delta = frames.DeltaFrame(seq=1, attempt=1, round=1, text="told to another", offset=0)
    await bus.traces.publish_frame(trace(other), delta)
    text = ""
    async with (
        asyncio.timeout(30),
        browser.http.stream(
            "GET", f"/conversations/{thread.conversation_id}/stream?run={trace(other)}"
        ) as response,
    ):
        async for piece in response.aiter_text():
            text += piece
            assert "told to another" not in text
    assert "Hi" in text


async def test_closed_page_stops_following_runs(storage: Storage, pool: Pool, bus: Bus) -> None:
    (word,) = make_words(1)
    await storage.add(build_user_message(word), build_run_started(word))
    await storage.follow()
    runs = OpenRuns(pool, bus)
    await runs.load_table(NowFilter(account_id=ACCOUNT))
    received = asyncio.Event()
    following = await bus.traces.follow_trace(trace(word), lambda _: received.set())
    await bus.traces.publish_frame(
        trace(word), frames.DeltaFrame(seq=2, attempt=1, round=1, text="word", offset=0)
    )
    await received.wait()
    await following.close()
    table = await runs.load_table(NowFilter())
    assert {row.words for row in table.rows if row.trace_id == trace(word)} == {""}


async def test_ended_runs_are_apart_from_open_ones(storage: Storage, browser: Browser) -> None:
    (word,) = make_words(1)
    asked = replace(build_user_message(word), agent_id=f"agent of {word}")
    await storage.add(asked, build_run_started(word), build_run_failed(word))
    await storage.follow()
    open_ones, _, ended = (await browser.get(f"/now?agent=agent of {word}")).text.partition('id="ended"')
    assert trace(word) not in open_ones
    assert f"?run={trace(word)}" in ended
    assert "✕ provider_error" in extract_text(ended)


def _run(**more: object) -> OpenRun:
    given: dict[str, object] = {
        "trace_id": "t",
        "conversation_id": "c",
        "account_id": "a",
        "agent_id": "g",
        "seconds": 1.0,
        "model": "m",
        "attempts": 1,
        "rounds": 0,
        "tool": None,
        "waits_for": None,
    }
    return OpenRun(**(given | more))  # type: ignore[arg-type]  # a table of fields


@pytest.mark.parametrize(
    ("run", "stage"),
    [
        (_run(model=None), ("running", "starting")),
        (_run(rounds=1), ("running", "model 2")),
        (_run(tool="search"), ("running", "tool search")),
        (_run(waits_for="cancel"), ("waiting", "approval cancel")),
    ],
)
def test_stage_shows_what_the_run_waits_for(run: OpenRun, stage: tuple[str, str]) -> None:
    row = build_row(run, "Shop", "Acme", LastWords())
    assert (row.kind, row.stage) == stage


def test_the_last_words_are_kept_and_all_are_counted() -> None:
    words = LastWords()
    words.apply(frames.DeltaFrame(seq=9, attempt=1, round=1, text="x" * 400 + " end", offset=4000))
    row = build_row(_run(), "Shop", "Acme", words)
    assert row.words.endswith("end")
    assert len(row.words) <= 160
    assert row.tokens == 1101


def test_points_hold_rates_and_errors_between_two_scrapes() -> None:
    before, after = Scrape(), Scrape()
    before.add("o", 'agentchat_runs_ended_total{state="failed",code="model_error"} 2\n')
    after.add(
        "o",
        'agentchat_runs_ended_total{state="failed",code="model_error"} 5\n'
        'agentchat_runs_ended_total{state="completed",code=""} 7\n'
        'agentchat_model_calls_seconds_count{provider="anthropic",outcome="ok"} 9\n'
        'agentchat_model_calls_seconds_count{provider="anthropic",outcome="overloaded"} 4\n',
    )
    found = build_point(before, after)
    assert found.ended == {"completed": 7, "failed": 3, "cancelled": 0}
    assert found.model_errors == {"anthropic: overloaded": 4}
    assert build_point(after, before).ended["failed"] == 0
    chart = build_charts([msgspec.structs.replace(found, seconds=60.0)], found.at)[-1]
    assert (chart.title, chart.latest) == ("Failed runs", "3"), "failed calls are not added to failed runs"
    assert chart.lines == [("failed runs", [3.0]), ("failed provider calls", [4.0])]


def test_tokens_are_charted_by_kind() -> None:
    before, after = Scrape(), Scrape()
    for scrape, count in ((before, 1), (after, 3)):
        counted = "".join(
            f'agentchat_model_tokens_total{{provider="p",model="{model}",kind="{kind}"}} {count * 500000}\n'
            for model in ("m-1", "m-2")
            for kind in ("input", "output", "cache_read")
        )
        scrape.add("o", counted)
    found = build_point(before, after)
    assert found.tokens == Usage(input_tokens=2_000_000, cache_read_tokens=2_000_000, output_tokens=2_000_000)
    *kinds, output = build_charts([msgspec.structs.replace(found, seconds=60.0)], found.at)[2].lines
    assert [name for name, _ in (*kinds, output)] == ["input", "cache reads", "cache writes", "output"]
    assert sum(values[0] or 0 for _, values in (*kinds, output)) == found.tokens.total


def test_parts_are_encoded_line_by_line() -> None:
    assert encode_event("<p>\n</p>") == b"data: <p>\ndata: </p>\n\n"
