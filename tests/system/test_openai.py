"""The demo's agent on OpenAI's wire: the same shop, the same tools, another protocol."""

import httpx
import pytest

from tests.harness import RunningStack
from tests.system.calling import Caller, pro, text_of


@pytest.fixture
def on_openai(stack: RunningStack, http: httpx.AsyncClient) -> Caller:
    """The demo agent on OpenAI's wire."""
    return pro(stack, http, stack.environment.openai_agent_id)


async def test_it_answers_as_the_agent_on_the_other_wire_does(caller: Caller, on_openai: Caller) -> None:
    for question in ("Hello!", "How many of PRD-124 are in stock?", "Show ORD-1001 and ORD-1002"):
        told = [(await each.chat(question)).json() for each in (caller, on_openai)]
        # The last line asks what else to do, in words that go by the ids of the turn.
        said = [one["message"]["content"].splitlines()[:-1] for one in told]
        assert said[0] == said[1]
        calls = [[(call["name"], call["input"]) for call in one.get("tool_calls", ())] for one in told]
        assert calls[0] == calls[1]


async def test_a_thread_goes_on_from_one_wire_to_the_other(caller: Caller, on_openai: Caller) -> None:
    events = await caller.stream("My name is Ada. Where is ORD-1028?")
    thread = events[0]["conversation_id"]
    assert events[-1]["type"] == "done"
    again = await on_openai.stream("What is my name?", conversation_id=thread)
    assert "Ada" in text_of(again)
    back = await caller.stream("What is my name?", conversation_id=thread)
    assert "Ada" in text_of(back)
