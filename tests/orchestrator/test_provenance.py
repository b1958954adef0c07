"""What a run records of how it was made: its worker, and hashes of its prompt and its tools."""

import hashlib
from typing import Any

import msgspec

from agentchat.contracts import events
from agentchat.contracts.values import ToolSpec
from agentchat.orchestrator.models import ModelCall
from agentchat.orchestrator.models.model_interface import hash_tools
from tests.orchestrator.given import World
from tests.orchestrator.scripted import reply_with


async def test_a_run_records_its_worker_and_the_prefix_of_its_prompt(system: World) -> None:
    system.will(reply_with("one"), reply_with("two"), reply_with("three"))
    agent = await system.agent(system_prompt="You are Bob.")
    first = await system.chat(agent, "Who are you?")
    await system.continue_chat(first, "Again?")
    await system.continue_chat(first, "Arr?", prompt="You are a pirate.")
    stored = await system.events(first)
    replies = [event for event in stored if isinstance(event, events.ModelReplied)]
    sent = [call.system for call in system.calls[-3:]]
    assert [reply.prompt_sha256 for reply in replies] == [
        hashlib.sha256(text.encode()).hexdigest() for text in sent
    ]
    assert replies[0].prompt_sha256 == replies[1].prompt_sha256 != replies[2].prompt_sha256
    assert {reply.tools_sha256 for reply in replies} == {hashlib.sha256(b"[]").hexdigest()}
    workers = {event.worker for event in stored if isinstance(event, events.RunStarted)}
    assert len(workers) == 1
    name, _, start = str(workers.pop()).partition("/")
    assert name
    assert len(start) == 36


def test_the_hash_of_the_tools_is_of_what_the_model_is_shown() -> None:
    spec = ToolSpec(
        name="find", server="shop", tool="find", description="Find it.", input_schema={"a": 1, "b": 2}
    )
    call = ModelCall(model="m", system="", messages=[], parameters={}, tools=(spec,))

    def hash_call_tools(**changed: Any) -> str:
        return hash_tools((msgspec.structs.replace(spec, **changed),))

    assert hash_call_tools(server="other", tool="search", read_only=True) == hash_tools(call.tools)
    assert hash_call_tools(input_schema={"b": 2, "a": 1}) == hash_tools(call.tools)
    others = {
        hash_call_tools(name="seek"),
        hash_call_tools(description="Seek it."),
        hash_call_tools(input_schema={"a": 2}),
    }
    assert len(others | {hash_tools(call.tools)}) == 4
