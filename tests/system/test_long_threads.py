"""Threads that outgrow their model's context window, on both wires and by the provider's own summaries."""

import asyncio
import secrets
from typing import Any

import pytest

from agentchat.contracts.events import ContextCompacted
from agentchat.conversations.event_store.event_log import open_log
from tests.harness import RunningStack
from tests.system.calling import MakeAgent
from tests.system.scanning import places_of
from tests.system.test_erase import first_pass_over
from tests.system.test_what_if import thread, what_if

WAYS = [("anthropic", "own"), ("openai", "own"), ("anthropic", "provider")]
SMALL: dict[str, Any] = {"context_window": 1000, "at_share": 0.2, "keep_runs": 0}
"""A story fills that share."""


@pytest.mark.parametrize(("provider", "by"), WAYS)
async def test_a_thread_goes_on_where_the_model_takes_no_more_of_it(
    make_agent: MakeAgent, provider: str, by: str
) -> None:
    """The window is smaller than its agent knows: three stories do not fit into it."""
    wanted = {"keep_runs": 1, "by": by}
    agent = await make_agent("demo-shop-1?context=600", provider=provider, compaction=wanted)
    first = (await agent.chat("Hi, my name is Ada.")).json()
    thread = first["conversation_id"]
    said = ["Tell me a story", "Tell me another story", "Tell me a story", "What is my name?"]
    replies = [(await agent.chat(message, conversation_id=thread)).json()["message"] for message in said]
    assert replies[-1]["content"] == "Your name is Ada."
    assert replies[-1]["token_count"] > 600, "a summary was paid for too: no call is so long"
    kept = [message["content"] for message in await agent.messages(thread)]
    assert kept[::2] == ["Hi, my name is Ada.", *said]
    assert kept[1::2] == [first["message"]["content"], *(reply["content"] for reply in replies)]


async def summaries(stack: RunningStack, conversation_id: str) -> list[ContextCompacted]:
    async with open_log(stack.environment.database_url) as log:
        conversation = await log.load_conversation(conversation_id)
    return [run.compacted for run in conversation.runs if run.compacted]


@pytest.mark.slow
async def test_a_summary_outlives_its_worker_and_has_no_part_in_the_past(
    stack: RunningStack, make_agent: MakeAgent
) -> None:
    said = ("Hi, my name is Ada.", "Tell me a story", "Thanks", "Tell me another story")
    told = {}
    for by in ("own", "provider"):
        agent = await make_agent("demo-shop-1", compaction={**SMALL, "by": by})
        told[await thread(agent, *said)] = agent
    before = [await summaries(stack, each) for each in told]
    assert [len(made) for made in before] == [1, 1]
    workers = ("orchestrator-1", "orchestrator-2")
    for name in workers:
        stack.kill(name)
    await asyncio.gather(*(stack.wait_ready(name) for name in workers))
    for (conversation_id, agent), (summary,) in zip(told.items(), before, strict=True):
        asked = await agent.chat("What is my name?", conversation_id=conversation_id)
        assert asked.json()["message"]["content"] == "Your name is Ada."
        assert len(await summaries(stack, conversation_id)) == 2
        messages = f"/v1/conversations/{conversation_id}/messages"
        then = await agent.get(messages, at=summary.through_version, limit=100)
        assert then.json()["data"] == (await agent.messages(conversation_id))[:4]
        of = ("--agent", agent.headers["X-Agent-Id"], "--conversations", conversation_id)
        code, out, err = await what_if(stack, *of, "--fail-on-divergence")
        assert code == 0, out + err


async def test_a_summary_is_nowhere_after_its_conversation_was_deleted(
    stack: RunningStack, make_agent: MakeAgent
) -> None:
    agent = await make_agent("demo-shop-1", compaction={**SMALL, "by": "provider"})
    canary = f"canary-{secrets.token_hex(8)}"
    told = await thread(agent, f"My colour is {canary}.", "Tell me a story", "What is my colour?")
    (summary,) = await summaries(stack, told)
    assert summary.provider_data is not None
    unreadable = summary.provider_data["anthropic"]["encrypted_content"]
    assert canary in summary.summary
    stood = {"table public.conversation_events", "stream EVENTS"}
    async with asyncio.timeout(20):
        while not stood <= set((await places_of(stack, [unreadable]))[unreadable]):
            pass
    assert (await agent.delete(told)).status_code == 204
    await first_pass_over(stack, told)
    assert await places_of(stack, [canary, unreadable]) == {canary: [], unreadable: []}
