"""What a process shows of itself at `/metrics`, as Prometheus reads it."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from runtime import metrics
from runtime.health import HealthChecks, serve_health
from tests.runtime.test_health import ask

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "metrics.md"


@pytest.fixture(autouse=True)
def started() -> Iterator[None]:
    metrics.start("gateway", "gateway-1", None)
    yield
    metrics.stop()


def shown() -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by its name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
    }


def test_a_counter_is_shown_with_its_attributes_once_it_has_counted() -> None:
    assert not [name for name, _ in shown() if name.startswith("agentchat_runs_ended")]
    metrics.RUNS_ENDED.add(state="completed", code="")
    metrics.RUNS_ENDED.add(2, state="failed", code="provider_timeout")
    metrics.RUNS_ENDED.add(state="failed", code="provider_timeout")
    found = shown()
    failed = frozenset({("state", "failed"), ("code", "provider_timeout")})
    assert found["agentchat_runs_ended_total", failed] == 3
    assert found["agentchat_runs_ended_total", frozenset({("state", "completed"), ("code", "")})] == 1


def test_a_gauge_shows_what_it_was_set_to_or_reads_and_nothing_where_nobody_knows() -> None:
    open_streams = [3.0]
    metrics.OPEN_STREAMS.read_by(lambda: open_streams[0])
    metrics.SLOTS.set(8, worker="a")
    metrics.SLOTS.set(9, worker="a")
    metrics.APPROVALS.set(None)
    found = shown()
    assert found["agentchat_streams_open", frozenset()] == 3
    assert found["agentchat_runs_slots", frozenset({("worker", "a")})] == 9
    assert not [name for name, _ in found if name.startswith("agentchat_approvals")]
    open_streams[0] = 0
    assert shown()["agentchat_streams_open", frozenset()] == 0


def test_a_histogram_counts_seconds_into_buckets_that_fit_what_it_measures() -> None:
    for seconds in (0.07, 0.3, 400.0):
        metrics.RUN_SECONDS.record(seconds, state="completed")
    buckets = {
        dict(labels)["le"]: value
        for (name, labels), value in shown().items()
        if name == "agentchat_runs_duration_seconds_bucket"
    }
    assert [buckets[bound] for bound in ("0.05", "0.1", "0.5", "300.0", "600.0")] == [0, 1, 2, 2, 3]


def test_after_the_stop_nothing_is_shown_and_nothing_of_before_comes_back() -> None:
    metrics.DELTAS.add(5)
    metrics.stop()
    assert metrics.exposition() == b""
    metrics.start("gateway", "gateway-1", None)
    assert not [name for name, _ in shown() if "deltas" in name]


async def test_the_health_address_serves_them() -> None:
    metrics.DELTAS.add(7)
    async with serve_health(HealthChecks({}), "127.0.0.1", 0) as port:
        status, body = await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n")
    assert status == b"HTTP/1.1 200 OK"
    assert b"agentchat_runs_deltas_total 7.0" in body
    assert b"agentchat_process_memory_bytes" in body
    assert b'service_instance_id="gateway-1"' in body


async def test_an_event_loop_that_is_held_up_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_LAG_SECONDS", 0.01)
    watching = asyncio.create_task(metrics.watch_loop())
    await asyncio.sleep(0)
    hold_the_loop_for(0.05)
    await asyncio.sleep(0.01)  # its timer was due before this one
    watching.cancel()
    [lag] = [value for (name, _), value in shown().items() if name.endswith("loop_lag_seconds_sum")]
    assert lag >= 0.035


def hold_the_loop_for(seconds: float) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        pass


def test_the_page_of_metrics_has_each_and_no_other() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `agentchat.")]
    named = [name for row in rows for name in re.findall(r"`(agentchat\.[a-z_.]+)`", row.split("|")[1])]
    assert sorted(named) == sorted(metric.name for metric in metrics.Metric.ALL)
