"""The metrics of the services of a whole stack."""

import asyncio

import httpx
from prometheus_client.parser import text_string_to_metric_families

from agentchat.ops.process_record import read
from tests.harness import RunningStack


async def _chat(stack: RunningStack) -> str:
    """A streamed chat of the demo with one tool call; returns its trace."""
    known = stack.environment
    headers = {"X-Api-Key": known.api_key, "X-Agent-Id": known.agent_id}
    async with httpx.AsyncClient(base_url=known.base_url, headers=headers, timeout=60) as client:
        asked = await client.post("/v1/chat/stream", json={"message": "Where is order ORD-1006?"})
        assert asked.status_code == 200, asked.text
        return asked.headers["X-Trace-Id"]


async def _totals(stack: RunningStack) -> dict[str, float]:
    """All services' samples, added up by name."""
    kept = read(stack.folder.processes)
    assert kept is not None
    found: dict[str, float] = {}
    async with httpx.AsyncClient(timeout=30) as client:
        for url in [each.metrics_url for each in kept.processes if each.metrics_url]:
            for family in text_string_to_metric_families((await client.get(url)).text):
                for sample in family.samples:
                    found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


async def test_a_chat_is_counted_by_each_service_that_it_passes(stack: RunningStack) -> None:
    await stack.wait_all_ready()
    before = await _totals(stack)
    await _chat(stack)

    def diff(name: str) -> float:
        return after.get(f"agentchat_{name}", 0.0) - before.get(f"agentchat_{name}", 0.0)

    async with asyncio.timeout(60):
        while True:  # its caller has the reply before the run is counted
            after = await _totals(stack)
            if diff("runs_ended_total") and diff("http_requests_seconds_count"):
                break

    assert diff("runs_ended_total") >= 1
    assert diff("runs_duration_seconds_count") >= 1
    assert diff("runs_deltas_total") >= 2
    assert diff("streams_first_delta_seconds_count") >= 1
    assert diff("http_requests_seconds_count") >= 1
    assert diff("model_calls_seconds_count") >= 2
    assert diff("model_tokens_total") > 100
    assert diff("tools_calls_seconds_count") >= 1
    for name in ("streams_open", "runs_slots", "projector_leading", "runs_in_line", "approvals_waiting"):
        assert f"agentchat_{name}" in after


async def test_no_metric_names_an_account_or_a_trace(stack: RunningStack) -> None:
    await stack.wait_all_ready()
    trace_id = await _chat(stack)
    kept = read(stack.folder.processes)
    assert kept is not None
    async with httpx.AsyncClient(timeout=30) as client:
        texts = [(await client.get(each.metrics_url)).text for each in kept.processes if each.metrics_url]
    assert texts
    for text in texts:
        assert trace_id not in text
        assert stack.environment.agent_id[:8] not in text  # the demo's ids all begin so
        assert len(text.splitlines()) < 1000


async def test_the_port_of_the_api_has_no_metrics(stack: RunningStack) -> None:
    await stack.wait_all_ready()
    async with httpx.AsyncClient(base_url=stack.environment.base_url, timeout=30) as client:
        assert (await client.get("/metrics")).status_code == 404
