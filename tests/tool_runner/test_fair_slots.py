"""One account's calls, or its part of RESULTS, delay no other account's calls."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

from agentchat.bus.stream_settings import STREAMS
from agentchat.directory.agent_config import McpServer
from agentchat.tool_runner.calls.result_quota import ACCOUNT_BYTES, WINDOW_SECONDS, ResultQuota
from tests.tool_runner.handling import handle_calls
from tests.tool_runner.runner import SECONDS, make_agent
from tests.tool_runner.scripted import Call, make_tool, serve_script

SLOTS = 8
BUSY = {"error": "Too many tool calls are under way, so this one was not started. Try again later."}


async def test_servers_that_do_not_answer_delay_no_other_account(
    fresh_nats_url: str, migrated_database_url: str
) -> None:
    """30 calls of one account: 4 run and the others wait in the runner."""
    hanging_calls = asyncio.Semaphore(0)

    async def hang(_call: Call) -> None:
        hanging_calls.release()
        await asyncio.sleep(60)

    async def echo(call: Call) -> None:
        await call.send_text(json.dumps(call.arguments))

    async with (
        serve_script(hang, [make_tool("hang", readOnlyHint=True)]) as silent,
        serve_script(echo) as sound,
        handle_calls(fresh_nats_url, migrated_database_url, silent.port, sound.port, slots=SLOTS) as handling,
    ):
        hanging = await make_agent(
            migrated_database_url,
            *(
                McpServer(name=f"silent{number}", url=silent.url, headers={"X-Number": str(number)})
                for number in range(4)
            ),
        )
        healthy = await make_agent(migrated_database_url, McpServer(name="scripted", url=sound.url))
        for number in range(30):
            await handling.calls.bus.queues.request_tool(hanging.call("hang", f"silent{number % 4}"))
        async with asyncio.timeout(SECONDS):
            for _ in range(SLOTS // 2):
                await hanging_calls.acquire()
        async with asyncio.timeout(20.0):  # without turns it is the 30 s of the other account's calls
            for number in range(3):
                finished = await handling.calls.finish(healthy.call("echo", input={"n": number}))
                assert finished.output == f'{{"n": {number}}}'
        soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
        refused = await handling.calls.finish(hanging.call("hang", "silent0", deadline=soon))
        assert (json.loads(refused.output), refused.is_error) == (BUSY, True)


def test_only_the_account_over_its_share_is_refused() -> None:
    quota = ResultQuota(100)
    assert quota.take("a", 60, now=0.0)
    assert not quota.take("a", 50, now=1.0)
    assert quota.take("b", 100, now=1.0)
    assert quota.take("a", 40, now=2.0)


def test_what_was_published_a_window_ago_counts_no_more() -> None:
    quota = ResultQuota(100)
    assert quota.take("a", 60, now=0.0)
    assert quota.take("a", 40, now=30.0)
    assert not quota.take("a", 1, now=WINDOW_SECONDS)
    assert quota.take("a", 60, now=WINDOW_SECONDS + 1)
    assert not quota.take("a", 1, now=WINDOW_SECONDS + 2)


def test_a_share_is_a_small_part_of_the_stream() -> None:
    (results,) = (stream for stream in STREAMS if stream.name == "RESULTS")
    assert (results.max_bytes or 0) >= 8 * ACCOUNT_BYTES


async def test_call_over_share_fails_and_other_account_is_served(
    fresh_nats_url: str, migrated_database_url: str
) -> None:
    async def answer(call: Call) -> None:
        await call.send_text(json.dumps("x" * 1000))

    async with (
        serve_script(answer, [make_tool("big", readOnlyHint=True)]) as scripted,
        handle_calls(
            fresh_nats_url, migrated_database_url, scripted.port, quota=ResultQuota(1500)
        ) as handling,
    ):
        server = McpServer(name="scripted", url=scripted.url)
        one, other = [await make_agent(migrated_database_url, server) for _ in range(2)]
        first, second = [await handling.calls.finish(one.call("big")) for _ in range(2)]
        others = await handling.calls.finish(other.call("big"))
    assert (first.is_error, second.is_error, others.is_error) == (False, True, False)
    assert "returned too much" in json.loads(second.output)["error"]
