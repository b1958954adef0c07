"""What successive calls of a thread share, byte for byte: all but the new part. A provider caches that."""

import signal
from typing import Any

import msgspec
import pytest

from agentchat.administration import admin_knowledge
from agentchat.administration.admin_values import NewKnowledgeBase
from agentchat.contracts import frames
from agentchat.directory.agent_config import Retrieval
from agentchat.orchestrator.models import ModelCall
from agentchat.orchestrator.models.anthropic.client import build_body
from agentchat.runtime.postgres import open_pool
from tests.administrator import administrator
from tests.knowledge.shelf import Shelf
from tests.orchestrator.given import World
from tests.orchestrator.process import orchestrator
from tests.orchestrator.provider_caller import user
from tests.orchestrator.scripted import Exchange, break_off, reply_with, reply_with_calls
from tests.orchestrator.test_tools import SHOP
from tests.orchestrator.toolbox import Toolbox


class Sent:
    """A prompt as bytes, piece by piece in the provider's order; `marks` are the pieces with a breakpoint.

    The first `head` pieces are the tools and the system prompt.
    """

    def __init__(self, call: Exchange) -> None:
        body = call.body
        whole: list[tuple[str, dict[str, Any]]] = [("tool", tool) for tool in body.get("tools", ())]
        whole += [("system", block) for block in body.get("system", ())]
        self.head = len(whole)
        whole += [(each["role"], block) for each in body["messages"] for block in each["content"]]
        self.marks = [place for place, (_, piece) in enumerate(whole) if "cache_control" in piece]
        self.pieces = [
            msgspec.json.encode((role, {k: v for k, v in piece.items() if k != "cache_control"}))
            for role, piece in whole
        ]

    def __len__(self) -> int:
        return len(self.pieces)

    def measure_shared(self, other: "Sent") -> int:
        """How many pieces both begin with."""
        pairs = zip(self.pieces, other.pieces, strict=False)
        differing = (place for place, (mine, theirs) in enumerate(pairs) if mine != theirs)
        return next(differing, min(len(self), len(other)))


async def test_with_tools_each_call_begins_with_the_whole_call_before(world: World) -> None:
    world.will(
        reply_with_calls(("c1", "find", "{}"), text="Let me see. "),
        reply_with("Found."),
        reply_with("Again."),
    )
    async with Toolbox(world.bus).open(), world.worker():
        first = await world.chat(await world.agent(system_prompt="Be brief.", **SHOP), "Where is it?")
        await world.continue_chat(first, "And now?")
    one, two, three = map(Sent, world.calls)
    assert [one.measure_shared(two), two.measure_shared(three)] == [len(one), len(two)]
    assert one.marks == [one.head - 1, len(one) - 1]
    assert two.marks == [two.head - 1, len(two) - 1]
    assert three.marks == [three.head - 1, len(three) - 2, len(three) - 1]
    assert b"And now?" in three.pieces[-1]


async def test_with_knowledge_documents_move_nothing_of_earlier_runs(
    world: World, migrated_database_url: str
) -> None:
    world.will(*(reply_with(f"Answer {number}.") for number in (1, 2, 3)))
    async with open_pool(migrated_database_url, role=None) as pool:
        new = NewKnowledgeBase(account_id=world.account_id, name="Help")
        base = await admin_knowledge.create(administrator(pool), new)
        shelf = Shelf(pool, world.account_id, base.id)
        await shelf.put("returns.txt", "You may return goods unused within 30 days of delivery.")
        await shelf.put("tents.txt", "Tents are dried before they are packed.")
        async with world.worker():
            agent = await world.agent(retrieval=Retrieval(knowledge_base_id=shelf.id))
            asked = await world.chat(agent, "How do I return goods?")
            for question in ("How are tents packed?", "May I return tents?"):
                await world.continue_chat(asked, question)
    one, two, three = map(Sent, world.calls)
    documents = len(two) - 2
    assert b"30 days" in one.pieces[one.head]
    assert [place for place, piece in enumerate(two.pieces) if b"dried before" in piece] == [documents]
    assert two.measure_shared(three) == documents
    assert two.marks == [two.head - 1, documents - 1, len(two) - 1]
    assert three.marks == [three.head - 1, len(three) - 3, len(three) - 1]
    assert not any(b"dried before" in piece for piece in three.pieces[: len(three) - 2])


async def test_variables_follow_the_first_breakpoint(system: World) -> None:
    system.will(reply_with("One."), reply_with("Two."), reply_with("Three."))
    agent = await system.agent(
        system_prompt="Be brief. Today is {{current_date}}. The customer is {{name}}.", variables=("name",)
    )
    first = await system.chat(agent, "Hello", context={"name": "Ada"})
    await system.continue_chat(first, "And?", context={"name": "Ada"})
    await system.chat(agent, "Hello", context={"name": "Bob"})
    one, two, three = map(Sent, system.calls[-3:])
    assert one.head == 2
    assert b"Be brief. Today is " in one.pieces[0]
    assert b". The customer is Ada." in one.pieces[1]
    assert [one.marks[0], three.marks[0], one.measure_shared(three)] == [0, 0, 1]
    assert two.measure_shared(one) == len(one)
    assert two.marks == [0, len(two) - 2, len(two) - 1]


async def test_missing_variables_refuse_the_message(system: World) -> None:
    agent = await system.agent(system_prompt="For {{name}}.", variables=("name", "tier"))
    system.will(reply_with("Hello."))
    await system.chat(agent, context={"name": "Ada", "tier": "gold"})
    listener = await system.ask(agent, context={"tier": "gold"})  # the worker knows the agent by now
    refused = await listener.until(frames.Refused)
    assert (refused.code, refused.message) == (
        "invalid_request",
        "context: The agent needs values for: name.",
    )


@pytest.mark.slow
@pytest.mark.parametrize("model", ["demo-shop-1", "claude-9"], ids=["prefill", "instruction"])
async def test_after_a_takeover_the_run_continues_with_the_same_prompt(world: World, model: str) -> None:
    world.will(break_off("It ", "has ", how="hang"), reply_with("shipped."), reply_with("Yes."))
    async with orchestrator(world.settings, "old") as old:
        first = await world.ask(await world.agent(model, system_prompt="Be brief."), "Where is it?")
        await first.wait_until_said("It has ")
        async with world.worker("new"):
            old.send(signal.SIGTERM)
            await old.wait_until_ended()
            await first.until(frames.Completed)
            await world.continue_chat(first, "Really?")
    one, two, three = map(Sent, world.calls)
    assert [one.measure_shared(two), one.measure_shared(three)] == [len(one), len(one)]
    assert [b"It has shipped." in piece for piece in three.pieces[len(one) :]] == [True, False]
    assert [two.marks, three.marks] == [one.marks, [0, len(one), len(three) - 1]]


def test_an_agent_says_how_long_the_prompt_is_cached_and_whether() -> None:
    call = ModelCall(model="m", system="Be brief.", messages=[user("a"), user("b")], parameters={}, earlier=1)

    def controls(chosen: dict[str, str] | None) -> list[Any]:
        body = build_body(msgspec.structs.replace(call, parameters={"cache_control": chosen}))
        assert "cache_control" not in body
        blocks = [*body["system"], *(block for each in body["messages"] for block in each["content"])]
        return [block.get("cache_control") for block in blocks]

    assert controls(None) == [{"type": "ephemeral"}] * 3
    assert controls({"type": "ephemeral", "ttl": "1h"}) == [{"type": "ephemeral", "ttl": "1h"}] * 3
    assert controls({"type": "off"}) == [None] * 3
    assert b"cache_control" not in msgspec.json.encode(call.messages)
