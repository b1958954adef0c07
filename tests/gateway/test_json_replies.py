"""POST /v1/chat: one JSON, and refusals with the status of their code."""

import asyncio
from typing import Any

import httpx

from agentchat.contracts import ids
from tests.gateway.client import Client
from tests.gateway.conftest import Accounts
from tests.gateway.worker import Turn, Worker

Waiting = asyncio.Task[httpx.Response]


async def ask(client: Client, worker: Worker, message: str = "hi", **body: Any) -> tuple[Turn, Waiting]:
    """A JSON request under way, and the turn that answers it."""
    waiting = asyncio.create_task(client.chat(message, **body))
    return await worker.next(message), waiting


async def test_a_conversation_and_a_prompt_are_handed_on(client: Client, worker: Worker) -> None:
    known = ids.make_id()
    turn, waiting = await ask(client, worker, conversation_id=known.upper(), prompt="Be brief.")
    await turn.answer()
    assert (await waiting).json()["conversation_id"] == known
    assert turn.request.conversation_id == known
    assert turn.request.new_conversation is False
    assert turn.request.prompt == "Be brief."


async def test_one_key_serves_many_agents(client: Client, worker: Worker, accounts: Accounts) -> None:
    for agent in (accounts.free.agent, accounts.free.second_agent.upper()):
        other = Client(client.http, client.url, accounts.free.key, agent)
        turn, waiting = await ask(other, worker)
        await turn.answer()
        assert (await waiting).status_code == 200
        assert turn.request.agent_id == agent.lower()


async def test_no_response_is_sent_before_the_acceptance(client: Client, worker: Worker) -> None:
    opening = asyncio.create_task(client.open())
    turn = await worker.next()
    await turn.delta("too early", lost=True)
    done, _ = await asyncio.wait([opening], timeout=0.3)
    assert not done
    turn.seq = 0
    await turn.accept()
    events = await opening
    await turn.complete("")
    await events.rest()
    await events.response.aclose()
