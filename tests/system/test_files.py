"""Uploaded files with the whole system: attached, erased with the last conversation, small in the log."""

import secrets
from typing import Any

from tests.harness import RunningStack
from tests.system.calling import Caller
from tests.system.scanning import places_of
from tests.system.test_erase import first_pass_over


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
