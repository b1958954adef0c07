"""Uploaded files with the whole system: attached, erased with the last conversation, small in the log."""

import secrets
from typing import Any

from openai import AsyncOpenAI

from agentchat.runtime.postgres import acquire_connection, open_pool
from tests.files.images import make_png
from tests.harness import RunningStack
from tests.system.calling import Caller
from tests.system.scanning import places_of
from tests.system.test_erase import first_pass_over

MOST_LOG_BYTES = 20 * 1024


async def upload(caller: Caller, content: bytes, name: str) -> str:
    response = await caller.http.post(
        f"{caller.base_url}/v1/files",
        headers={"X-Api-Key": caller.headers["X-Api-Key"]},
        files={"file": (name, content)},
    )
    assert response.status_code == 201, response.text
    return str(response.json()["file_id"])


async def chat(caller: Caller, message: str, *file_ids: str, **more: Any) -> str:
    attachments = [{"file_id": file_id} for file_id in file_ids]
    response = await caller.chat(message, attachments=attachments, **more)
    assert response.status_code == 200, response.text
    return str(response.json()["conversation_id"])


async def test_a_files_bytes_go_with_its_last_conversation(stack: RunningStack, caller: Caller) -> None:
    name, content = (f"canary-{secrets.token_hex(8)}" for _ in range(2))
    file_id = await upload(caller, f"The code is {content}.".encode(), f"{name}.txt")
    first = await chat(caller, "What is in this file?", file_id)
    shown = (await caller.messages(first))[0]["attachments"]
    assert [(file["file_id"], file["name"]) for file in shown] == [(file_id, f"{name}.txt")]
    fork = await caller.http.post(
        f"{caller.base_url}/v1/conversations/{first}/fork", json={}, headers=caller.headers
    )
    assert (await caller.delete(first)).status_code == 204
    await first_pass_over(stack, first)
    assert "a stored file" in (await places_of(stack, [content]))[content]
    last = fork.json()["conversation_id"]
    assert (await caller.delete(last)).status_code == 204
    await first_pass_over(stack, last)
    left = await places_of(stack, [name, content])
    assert not any(left.values()), left
    assert (await caller.get(f"/v1/files/{file_id}")).status_code == 404


async def test_sixteen_images_take_less_than_20_kib_of_the_log(stack: RunningStack, caller: Caller) -> None:
    images = [await upload(caller, make_png(600, 1 + number), f"{number}.png") for number in range(16)]
    plain, thread = await chat(caller, "Hello"), await chat(caller, "Hello", *images)

    async def measure(conversation_id: str) -> int:
        query = (
            "SELECT sum(octet_length(state) + octet_length(topic)) FROM conversation_events"
            " WHERE originator_id = %s"
        )
        async with open_pool(stack.environment.database_url) as pool, acquire_connection(pool) as conn:
            row = await (await conn.execute(query, [conversation_id])).fetchone()
        assert row is not None
        return int(row[0])

    added = await measure(thread) - await measure(plain)
    assert 0 < added < MOST_LOG_BYTES


async def test_the_openai_sdk_keeps_files(caller: Caller) -> None:
    client = AsyncOpenAI(base_url=f"{caller.base_url}/openai/v1", api_key=caller.headers["X-Api-Key"])
    async with client:
        made = await client.files.create(
            file=("a.csv", b"a,b\n"),
            purpose="user_data",
            expires_after={"anchor": "created_at", "seconds": 3600},
        )
        assert (made.filename, made.bytes, made.status) == ("a.csv", 4, "processed")
        assert await client.files.retrieve(made.id) == made
        assert (await client.files.content(made.id)).content == b"a,b\n"
        assert made.id in [file.id async for file in client.files.list(limit=2)]
        assert (await client.files.delete(made.id)).deleted
