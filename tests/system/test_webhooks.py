"""Webhooks on the whole system: from a chat to a receiver, through a killed projector and a wiped NATS."""

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from tests.harness import RunningStack
from tests.system.calling import Caller
from tests.webhooks.receiver import Receiver

_ENDPOINTS = "/v1/webhook_endpoints"
_RECEIVE = Path(__file__).parents[2] / "examples" / "webhooks" / "receive.py"


async def test_a_chat_is_told_and_a_test_has_the_receivers_answer(
    stack: RunningStack, caller: Caller, receiver: Receiver
) -> None:
    wanted = {"url": receiver.build_url("/hook"), "events": ["run.completed"], "payload": "full"}
    made = (await caller.send("POST", _ENDPOINTS, json=wanted)).json()
    address = f"{_ENDPOINTS}/{made['id']}"
    tested = (await caller.send("POST", f"{address}/test", json={})).json()
    async with asyncio.timeout(100):
        while not tested["attempts"]:  # a busy machine takes longer than the answer waits
            tested = (await caller.get(f"{address}/deliveries/{tested['id']}")).json()
            await asyncio.sleep(0.1)
    assert (tested["status"], tested["attempts"][0]["status"]) == ("delivered", 204)
    await stack.wait_ready("projector-1")
    stack.kill("projector-1")
    answer = await caller.chat("How many of PRD-124 are in stock?")
    _, got = await receiver.wait_until("/hook", 2)
    message = Webhook(made["secret"]).verify(got.body, got.headers)
    assert message["data"]["message"] == answer.json()["message"]
    assert (await caller.send("DELETE", address)).is_success


@pytest.mark.slow
async def test_a_wiped_nats_loses_no_delivery(
    stack: RunningStack, caller: Caller, receiver: Receiver
) -> None:
    wanted = {"url": receiver.build_url("/wiped"), "events": ["run.completed"]}
    made = (await caller.send("POST", _ENDPOINTS, json=wanted)).json()
    address = f"{_ENDPOINTS}/{made['id']}"
    assert (await caller.send("PATCH", address, json={"disabled": True})).is_success
    owed = [(await caller.chat(f"Before {number}")).json()["conversation_id"] for number in range(3)]
    stack.kill("nats", signal.SIGSTOP)
    shutil.rmtree(stack.folder.nats / "jetstream")
    stack.kill("nats")
    await stack.wait_all_ready()
    assert (await caller.send("PATCH", address, json={"disabled": False})).is_success
    owed += [(await caller.chat(f"After {number}")).json()["conversation_id"] for number in range(3)]
    got = await receiver.wait_until("/wiped", len(owed))
    assert {each.message["data"]["conversation_id"] for each in got} == set(owed)
    assert (await caller.send("DELETE", address)).is_success


@pytest.mark.slow
async def test_the_example_verifies_and_prints_what_comes_until_ctrl_c(
    stack: RunningStack, caller: Caller
) -> None:
    """Also where it was started with SIGINT ignored, as shells start what runs in the background."""
    found = stack.environment
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", 'trap "" INT; exec "$0" "$1"', sys.executable, str(_RECEIVE)),
        env={**os.environ, "BASE_URL": found.base_url, "API_KEY": found.api_key},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            assert (await process.stdout.readline()).startswith(b"listening at")
            conversation_id = (await caller.chat("Hello")).json()["conversation_id"]
            line = (await process.stdout.readline()).decode().split()
            assert line == ["run.completed", conversation_id]
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
