"""An error that comes after the message was saved names the conversation, in the body and in a header."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from agentchat.contracts import errors, frames, ids
from agentchat.contracts.values import ApprovalNeeded
from tests.gateway.client import Client
from tests.gateway.worker import Worker

OWN, COMPLETIONS, RESPONSES = "/v1/chat", "/openai/v1/chat/completions", "/openai/v1/responses"
CODES = (
    "provider_error",
    "cancelled",
    "output_invalid",
    "provider_overloaded",
    "context_too_long",
    "provider_timeout",
    "deadline_exceeded",
    "unheard_of",
)


def ask(client: Client, path: str, message: str, **body: Any) -> "asyncio.Task[httpx.Response]":
    key, agent = client.headers["X-Api-Key"], client.headers["X-Agent-Id"]
    bearer = {"Authorization": f"Bearer {key}"}
    shown = [{"role": "user", "content": message}]
    given: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
        OWN: ({"message": message}, client.headers),
        COMPLETIONS: ({"model": agent, "messages": shown}, bearer),
        RESPONSES: ({"model": agent, "input": message}, bearer),
    }
    content, headers = given[path]
    sending = client.http.post(f"{client.url}{path}", json={**content, **body}, headers=headers)
    return asyncio.create_task(sending)


def read_conversation_id(path: str, response: httpx.Response) -> str | None:
    body: dict[str, Any] = response.json()
    found = body if path == OWN else body["error"]
    conversation_id: str | None = found.get("conversation_id")
    assert response.headers.get("x-conversation-id") == conversation_id
    return conversation_id


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("path", [OWN, COMPLETIONS, RESPONSES])
async def test_error_of_a_saved_message_names_conversation(
    client: Client, worker: Worker, path: str, code: str
) -> None:
    message = ids.make_id()
    asked = ask(client, path, message)
    turn = await (await worker.next(message)).accept()
    await turn.fail(code)
    response = await asked
    assert response.status_code == errors.get_error_code(code).status
    assert "it failed" in response.text
    assert read_conversation_id(path, response) == turn.request.conversation_id


@pytest.mark.parametrize("path", [OWN, COMPLETIONS, RESPONSES])
@pytest.mark.parametrize(
    "code",
    ["conversation_busy", "conversation_not_found", "agent_not_found", "overloaded", "conversation_full"],
)
async def test_error_before_the_message_is_saved_names_none(
    client: Client, worker: Worker, path: str, code: str
) -> None:
    message = ids.make_id()
    asked = ask(client, path, message)
    await (await worker.next(message)).refuse(code)
    response = await asked
    assert response.status_code == errors.get_error_code(code).status
    assert read_conversation_id(path, response) is None
    assert read_conversation_id(path, await ask(client, path, " ")) is None


async def test_pending_approvals_name_their_conversation(client: Client, worker: Worker) -> None:
    message, known = ids.make_id(), ids.make_id()
    asked = ask(client, OWN, message, conversation_id=known)
    turn = await worker.next(message)
    await turn.say(
        frames.Refused(
            seq=0,
            attempt=0,
            code="approval_pending",
            message="no",
            approvals=(ApprovalNeeded(id=ids.make_id()),),
        )
    )
    assert read_conversation_id(OWN, await asked) == known


async def test_failed_stream_names_conversation_in_its_headers(client: Client, worker: Worker) -> None:
    for path in (COMPLETIONS, RESPONSES):
        message = ids.make_id()
        asked = ask(client, path, message, stream=True)
        turn = await (await worker.next(message)).accept()
        await turn.fail("provider_error")
        response = await asked
        assert response.headers.get_list("x-conversation-id") == [turn.request.conversation_id]
        if path == COMPLETIONS:
            last = json.loads(response.text.strip().rpartition("\n")[2].removeprefix("data: "))
            assert last["error"]["conversation_id"] == turn.request.conversation_id
