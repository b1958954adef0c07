"""`agentchat top` and `agentchat logs` on a whole stack."""

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from ops.folder import RunFolder
from ops.record import read
from tests.harness import RunningStack

_SERVICES = {"gateway-1", "orchestrator-1", "tool-runner-1", "projector-1", "notifier-1", "judge-1"}


async def _ran(stack: RunningStack, *options: str) -> tuple[int, str, str]:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "ops.main", *options],
        env=os.environ | {"AGENTCHAT_RUN_DIR": str(stack.folder.path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


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

    def more(name: str) -> float:
        return after.get(f"agentchat_{name}", 0.0) - before.get(f"agentchat_{name}", 0.0)

    async with asyncio.timeout(60):
        while True:  # its caller has the reply before the run is counted
            after = await _totals(stack)
            if more("runs_ended_total") and more("http_requests_seconds_count"):
                break

    assert more("runs_ended_total") >= 1
    assert more("runs_duration_seconds_count") >= 1
    assert more("runs_deltas_total") >= 2
    assert more("streams_first_delta_seconds_count") >= 1
    assert more("http_requests_seconds_count") >= 1
    assert more("model_calls_seconds_count") >= 2
    assert more("model_tokens_total") > 100
    assert more("tools_calls_seconds_count") >= 1
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


async def test_top_adds_up_all_services_and_names_one_that_is_away(stack: RunningStack) -> None:
    await stack.wait_all_ready()
    await _chat(stack)
    code, out, _ = await _ran(stack, "top", "--once", "--json")
    found: dict[str, Any] = json.loads(out)
    assert code == 0
    assert set(found["processes"]) >= _SERVICES
    assert all(each["memory_bytes"] > 2**20 for each in found["processes"].values())
    assert found["slots"] > 0
    assert found["processes"]["projector-1"]["shards"] == 16
    assert set(found["lags"]) == {"read models", "events feed", "webhook deliveries"}
    assert found["away"] == []
    kept = read(RunFolder(stack.folder.path).processes)
    assert kept is not None
    gateway = next(each.metrics_url for each in kept.processes if each.name == "gateway-1")
    assert gateway is not None
    nobody = "http://127.0.0.1:9/metrics"
    code, out, _ = await _ran(stack, "top", "--once", "--url", gateway, "--url", nobody)
    assert code == 0
    lines = {line.split("  ")[0].strip(): line for line in out.splitlines()}
    assert "does not answer" in lines[nobody]
    assert "MiB" in lines[gateway]


async def test_logs_are_one_list_by_time_with_filters(stack: RunningStack) -> None:
    await stack.wait_all_ready()
    trace_id = await _chat(stack)
    async with asyncio.timeout(60):
        while True:  # its caller has the reply before all services have logged it
            code, out, _ = await _ran(stack, "logs", "--trace", trace_id, "--json")
            assert code == 0
            lines = [json.loads(line) for line in out.splitlines()]
            if {"run_ended", "request"} <= {line["event"] for line in lines}:
                break
    services = {line["service"].rpartition("-")[0] for line in lines}
    assert services >= {"gateway", "orchestrator", "tool-runner"}
    assert {line["fields"]["trace_id"] for line in lines} == {trace_id}
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    _, out, _ = await _ran(stack, "logs", "--service", "gateway", "--trace", trace_id)
    assert out.count(" gateway-") == len(out.splitlines()) >= 1
    _, out, _ = await _ran(stack, "logs", "--level", "warning", "--trace", trace_id)
    assert out == ""


async def test_logs_of_no_service_and_of_no_time_are_refused_by_name(stack: RunningStack) -> None:
    await stack.wait_all_ready()
    code, _, err = await _ran(stack, "logs", "--service", "gatewy")
    assert code == 2
    assert "--service: there is none of this name; there are" in err
    assert "gateway-1" in err
    code, _, err = await _ran(stack, "logs", "--since", "yesterday")
    assert (code, err.count("\n")) == (2, 1)
    assert "--since: 'yesterday' is neither a time" in err


async def test_followed_logs_show_what_comes(stack: RunningStack) -> None:
    await stack.wait_all_ready()
    following = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ops.main", "logs", "-f", "--service", "orchestrator", "--json"),
        env=os.environ | {"AGENTCHAT_RUN_DIR": str(stack.folder.path)},
        stdout=subprocess.PIPE,
    )
    try:
        assert following.stdout is not None
        async with asyncio.timeout(60):
            await following.stdout.readline()  # it has begun to read
            trace_id = await _chat(stack)
            while True:
                line = json.loads(await following.stdout.readline())
                if line["event"] == "run_ended" and line["fields"]["trace_id"] == trace_id:
                    break
    finally:
        following.terminate()
        await following.wait()
