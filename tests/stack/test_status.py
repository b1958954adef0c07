"""`agentchat status` on a whole stack: what it shows of work that is under way, and of what is down."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from agentchat.ops import demo
from agentchat.ops.process_record import Entry
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.status.status_command import _format_restarts, _load_status, _probe_service, print_status
from agentchat.ops.status.system_figures import read_last_errors
from tests.harness import RunningStack

_READ_MODELS = {
    "approvals",
    "conversations",
    "feedback",
    "messages",
    "runs",
    "search",
    "tools",
}


def _command(folder: Path, *options: str) -> list[str]:
    assert folder.is_absolute()
    return [sys.executable, "-m", "agentchat.ops.main", "status", *options]


async def _ran(stack: RunningStack, *options: str) -> tuple[int, str]:
    done = await asyncio.to_thread(
        subprocess.run,
        _command(stack.folder.path, *options),
        env=os.environ | {"AGENTCHAT_RUN_DIR": str(stack.folder.path)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout


async def _read(stack: RunningStack) -> Any:
    """Return what `status --json` prints, without a process."""
    return msgspec.to_builtins(await _load_status(stack.folder))


@contextlib.asynccontextmanager
async def _waiting_for_approval(stack: RunningStack) -> AsyncIterator[None]:
    """A run of the demo's shop assistant, which needs a person's approval; it is cancelled at the end."""
    known = stack.environment
    headers = {"X-Api-Key": known.api_key, "X-Agent-Id": known.agent_id}
    async with httpx.AsyncClient(base_url=known.base_url, headers=headers, timeout=30) as client:
        asked = await client.post("/v1/chat", json={"message": "Cancel ORD-1032"})
        assert asked.status_code == 409, asked.text
        try:
            yield
        finally:
            trace_id = asked.headers["X-Trace-Id"]
            assert (await client.post(f"/v1/chat/{trace_id}/cancel")).status_code == 202


async def test_it_shows_each_process_with_its_health_and_version(stack: RunningStack) -> None:
    await stack.wait_all_ready()
    _, printed = await _ran(stack, "--json")
    found = json.loads(printed)
    assert found["ready"]
    assert found["base_url"] == stack.environment.base_url
    services = {each["name"]: each for each in found["services"]}
    assert tuple(services) == stack.names()
    assert all(each["pid"] == stack.pid(name) for name, each in services.items())
    assert all(each["version"] and each["state"] == "ready" for each in services.values())
    async with httpx.AsyncClient() as http:
        for name, each in services.items():
            if name in ("postgres", "valkey"):
                assert each["health_url"] is None
            else:
                assert (await http.get(each["health_url"])).status_code == 200, name


async def test_status_shows_runs_approvals_and_lags(
    stack: RunningStack, capsys: pytest.CaptureFixture[str]
) -> None:
    await stack.wait_all_ready()
    async with _waiting_for_approval(stack):
        async with asyncio.timeout(60):
            while True:  # other tests' runs begin and end too: both views are of one reading
                status = await _load_status(stack.folder)
                found = msgspec.to_builtins(status.figures)
                if found["runs"]["approvals"] and found["runs"]["open_runs"]:
                    break
        code, _ = await _ran(stack)
        assert code == 0
    assert found["runs"]["oldest_run_seconds"] > 0
    assert [queue["name"] for queue in found["queues"]] == ["REQUESTS", "TOOLS"]
    assert {lag["name"] for lag in found["lags"]} == _READ_MODELS | {"EVENTS"}
    assert all(lag["behind"] >= 0 and lag["parked"] == 0 for lag in found["lags"])
    assert found["webhooks"]["failing"] >= 0, "other tests of this stack may have endpoints that fail"
    assert found["unknown"] == []
    assert found["projector"] == "projector-1"
    print_status(status)
    table, figures = capsys.readouterr().out.split("\n\n")
    assert all(line.endswith("ready") for line in table.splitlines()[1:])
    assert "projector    projector-1 is the leader" in figures
    assert f"approvals    {found['runs']['approvals']} pending" in figures


async def test_failed_runs_are_counted_by_code(stack: RunningStack) -> None:
    await stack.wait_all_ready()
    known = stack.environment
    before = {each["code"]: each["runs"] for each in (await _read(stack))["figures"]["failed_runs"]}
    draft = {
        "account_id": demo.ACCOUNT_ID,
        "name": "Fails",
        "model": "demo-echo?fail=400",
        "provider_key": "x",
    }
    async with httpx.AsyncClient(base_url=known.base_url, timeout=60) as client:
        admin = {"Authorization": f"Bearer {known.admin_token}"}
        made = await client.post("/admin/v1/agents", json=draft, headers=admin)
        assert made.status_code == 201, made.text
        headers = {"X-Api-Key": known.api_key, "X-Agent-Id": made.json()["id"]}
        for _ in range(2):
            failed = await client.post("/v1/chat", json={"message": "Hello"}, headers=headers)
            assert failed.status_code >= 400
    code = failed.json()["code"]
    async with asyncio.timeout(60):
        while True:
            counted = {each["code"]: each["runs"] for each in (await _read(stack))["figures"]["failed_runs"]}
            if counted.get(code, 0) == before.get(code, 0) + 2:
                break
    _, text = await _ran(stack)
    [line] = [each for each in text.splitlines() if each.startswith("failed runs")]
    assert f"{code} {counted[code]}" in line
    assert "in the last 24 h" in line


@pytest.mark.parametrize(
    ("restarts", "ended_at", "reason", "text"),
    [
        (0, None, None, "0"),
        (2, 1_763_717_403.9, "was killed by SIGKILL", "2, last 2025-11-21T09:30:03Z: was killed by SIGKILL"),
        (
            1,
            1_763_717_403.0,
            "ended with exit code 3",
            "1, last 2025-11-21T09:30:03Z: ended with exit code 3",
        ),
    ],
)
async def test_restarts_have_a_time_and_a_reason(
    folder: RunFolder, restarts: int, ended_at: float | None, reason: str | None, text: str
) -> None:
    entry = Entry(
        name="one",
        pid=None,
        started_at=1_763_717_404.0,
        restarts=restarts,
        ended_at=ended_at,
        end_reason=reason,
        log=str(folder.log("one")),
    )
    service = await _probe_service(entry)
    assert _format_restarts(service) == text
    assert service.last_end_reason == reason
    assert (service.reason or "").endswith("being restarted")


@pytest.mark.slow
async def test_what_is_down_is_shown_as_down_and_the_rest_is_known(stack: RunningStack) -> None:
    await stack.wait_all_ready()
    nats = stack.pid("nats")
    os.kill(nats, signal.SIGSTOP)
    try:
        code, out = await _ran(stack, "--json")
    finally:
        os.kill(nats, signal.SIGCONT)
    found = json.loads(out)
    assert code == 1
    states = {each["name"]: (each["state"], each["reason"]) for each in found["services"]}
    assert states["nats"] == ("not ready", "no answer in time")
    assert states["postgres"] == ("ready", None)
    assert found["figures"]["queues"] is None
    assert found["figures"]["unknown"] == ["nats is down"]
    assert {lag["name"] for lag in found["figures"]["lags"]} == _READ_MODELS
    await stack.wait_all_ready()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_watch_repeats_until_a_signal(stack: RunningStack, number: signal.Signals) -> None:
    watching = await asyncio.create_subprocess_exec(
        *("sh", "-c", 'trap "" INT; exec "$@"', "sh", *_command(stack.folder.path, "--watch", "--json")),
        env=os.environ | {"AGENTCHAT_RUN_DIR": str(stack.folder.path)},
        stdout=subprocess.PIPE,
        limit=1024 * 1024,
    )
    assert watching.stdout is not None
    try:
        async with asyncio.timeout(60):
            for _ in range(2):
                assert json.loads(await watching.stdout.readline())["services"]
            watching.send_signal(number)
            assert await watching.wait() in (0, 1)  # whether all was ready
    finally:
        if watching.returncode is None:
            watching.kill()


def test_the_newest_errors_of_all_logs_are_found(folder: RunFolder) -> None:
    folder.log("gateway-1").write_text(
        '{"event":"warned","level":"warning","timestamp":"2026-11-21T09:00:04.000000Z"}\n'
        '{"event":"failed","code":7,"level":"error","timestamp":"2026-11-21T09:00:03.000000Z"}\n'
        "no JSON\n{broken\n"
    )
    folder.log("postgres").write_text(
        "2026-11-21 09:00:01.500 UTC [77] LOG:  ready\n"
        "2026-11-21 09:00:02.500 UTC [77] ERROR:  duplicate key\n"
        "2026-11-21 09:00:02.500 UTC [77] DETAIL:  it exists\n"
    )
    folder.log("nats").write_text("[9] 2026/11/21 09:00:01.000001 [ERR] no space\n")
    found = read_last_errors(folder, 5)
    assert [(each.service, each.text) for each in found] == [
        ("nats", "[ERR] no space"),
        ("postgres", "ERROR:  duplicate key"),
        ("gateway-1", "failed code=7"),
    ]
    assert [each.at[:23] for each in found][::2] == ["2026-11-21T09:00:01.000", "2026-11-21T09:00:03.000"]
    assert read_last_errors(folder, 1) == found[-1:]
