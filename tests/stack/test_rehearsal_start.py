"""`up --rehearsal`: what a copy of a stack had begun stays as it is, and everything can be read."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentchat.ops.free_ports import find_free_port
from agentchat.projector.run_sweeper import SWEEP_SECONDS
from agentchat.runtime.postgres import acquire_connection, open_pool
from tests.harness import RunningStack, start_stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

_BEGUN = {
    "deliveries": "SELECT to_jsonb(d) FROM webhook_deliveries d ORDER BY 1",
    "requests": "SELECT to_jsonb(r) FROM run_requests r ORDER BY 1",
    "runs": "SELECT to_jsonb(r) FROM runs r ORDER BY 1",
    "events": "SELECT to_jsonb(count(*)) FROM conversation_events",
}


async def read_begun(stack: RunningStack) -> dict[str, Any]:
    async with open_pool(stack.environment.database_url, role=None) as pool, acquire_connection(pool) as conn:
        return {name: await (await conn.execute(query)).fetchall() for name, query in _BEGUN.items()}


async def begin(stack: RunningStack, http: httpx.AsyncClient) -> str:
    """Have a delivery that fails and a run that does not end; return the run's conversation."""
    found = stack.environment
    key = {"X-Api-Key": found.api_key}
    hook = {"url": f"http://127.0.0.1:{find_free_port()}/", "events": ["run.completed"]}
    (await http.post(f"{found.base_url}/v1/webhook_endpoints", json=hook, headers=key)).raise_for_status()
    shop = key | {"X-Agent-Id": found.agent_id}
    (await http.post(f"{found.base_url}/v1/chat", json={"message": "hello"}, headers=shop)).raise_for_status()
    admin = {"Authorization": f"Bearer {found.admin_token}"}
    account = (await http.get(f"{found.base_url}/admin/v1/agents/{found.agent_id}", headers=admin)).json()
    draft = {"name": "Slow", "model": "demo-load?deltas=900&delay_ms=1000", "provider_key": "offline"}
    draft["account_id"] = account["account_id"]
    made = (await http.post(f"{found.base_url}/admin/v1/agents", json=draft, headers=admin)).json()
    slow = key | {"X-Agent-Id": made["id"]}
    chat = f"{found.base_url}/v1/chat/stream"
    async with http.stream("POST", chat, json={"message": "tell"}, headers=slow) as response:
        conversation_id = response.headers["x-conversation-id"]
    async with asyncio.timeout(30):
        while True:
            begun = await read_begun(stack)
            if any(row["attempts"] for (row,) in begun["deliveries"]):
                return str(conversation_id)
            await asyncio.sleep(0.1)


async def test_rehearsal_continues_nothing_and_reads_everything(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    async with httpx.AsyncClient(timeout=30, trust_env=False) as http:
        stack = start_stack(folder)
        try:
            await stack.wait_up()
            conversation_id = await begin(stack, http)
        finally:
            await stack.stop()
        rehearsal = start_stack(folder, environ={"AGENTCHAT_REHEARSAL": "1"})
        try:
            await rehearsal.wait_up()
            before = await read_begun(rehearsal)
            found = rehearsal.environment
            key = {"X-Api-Key": found.api_key}
            assert len(before["deliveries"]) == 1
            assert [row["state"] for (row,) in before["runs"]].count("running") == 1

            conversation = f"{found.base_url}/v1/conversations/{conversation_id}"
            assert (await http.get(conversation, headers=key)).status_code == 200
            body = {"message": "hello", "conversation_id": conversation_id}
            asked = await http.post(
                f"{found.base_url}/v1/chat", json=body, headers=key | {"X-Agent-Id": found.agent_id}
            )
            assert (asked.status_code, asked.json()["code"]) == (503, "rehearsal")
            assert (await http.delete(conversation, headers=key)).json()["code"] == "rehearsal"
            shown = await http.get(f"{found.console_url}/conversations", follow_redirects=True)
            assert "Rehearsal: no webhooks" in shown.text

            await asyncio.sleep(SWEEP_SECONDS + 1)  # a sweeper would have asked for the run again
            assert await read_begun(rehearsal) == before
            status = await asyncio.to_thread(run_status, folder)
            assert (status["rehearsal"], status["ready"]) == (True, True)
            assert not {"orchestrator-1", "tool-runner-1"} & {each["name"] for each in status["services"]}
        finally:
            await rehearsal.stop()


def run_status(folder: Path) -> dict[str, Any]:
    environ = os.environ | {"AGENTCHAT_RUN_DIR": str(folder)}
    command = (sys.executable, "-m", "agentchat.ops.main", "status", "--json")
    return dict(json.loads(subprocess.run(command, env=environ, check=True, capture_output=True).stdout))
