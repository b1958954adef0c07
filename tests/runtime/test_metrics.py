"""A process's metrics at `/metrics`, as Prometheus reads them."""

import asyncio
import re
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from agentchat.runtime import metrics
from agentchat.runtime.health_and_metrics import HealthChecks, serve_health
from tests.runtime.test_health import ask
from tests.support.scraped import counts_in

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "metrics.md"


async def test_health_address_serves_metrics() -> None:
    metrics.DELTAS.inc(7)
    async with serve_health(HealthChecks({}), "127.0.0.1", 0) as port:
        status, body = await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n")
    assert status == b"HTTP/1.1 200 OK"
    shown = body.decode()
    assert counts_in(shown, "agentchat_runs_deltas_total")[""] >= 7
    assert counts_in(shown, "agentchat_process_memory_bytes")[""] > 1_000_000
    assert "_created" not in shown


async def test_blocked_event_loop_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_LAG_SECONDS", 0.01)
    name = "agentchat_process_loop_lag_seconds_sum"
    before = REGISTRY.get_sample_value(name) or 0.0
    watching = asyncio.create_task(metrics.watch_loop())
    await asyncio.sleep(0)
    hold_the_loop_for(0.05)
    await asyncio.sleep(0.01)  # its timer was due before this one
    watching.cancel()
    assert (REGISTRY.get_sample_value(name) or 0.0) - before >= 0.035


def hold_the_loop_for(seconds: float) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        pass


def test_names_that_callers_choose_are_bounded() -> None:
    names = metrics.BoundedNames()
    assert [names.admit(f"server-{number}") for number in range(200)][-1] == "server-199"
    assert names.admit("one-more") == "other"
    assert names.admit("server-7") == "server-7"


def test_page_lists_every_metric_and_no_other() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `agentchat_")]
    named = [name for row in rows for name in re.findall(r"`(agentchat_[a-z_]+)`", row.split("|")[1])]
    assert sorted(named) == sorted(metrics.list_names())
