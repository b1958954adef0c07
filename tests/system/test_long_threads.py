"""A thread that outgrows its model's context window, on both wires."""

import pytest

from tests.harness import RunningStack
from tests.system.calling import MakeAgent

pytestmark = pytest.mark.requirement("COMPACTION")


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_a_thread_goes_on_where_the_model_takes_no_more_of_it(
    stack: RunningStack, make_agent: MakeAgent, provider: str
) -> None:
    """The window is smaller than its agent knows: three stories do not fit into it."""
    agent = await make_agent("demo-shop-1?context=600", provider=provider, compaction={"keep_runs": 1})
    first = (await agent.chat("Hi, my name is Ada.")).json()
    thread = first["conversation_id"]
    said = ["Tell me a story", "Tell me another story", "Tell me a story", "What is my name?"]
    replies = [(await agent.chat(message, conversation_id=thread)).json()["message"] for message in said]
    assert replies[-1]["content"] == "Your name is Ada."
    assert replies[-1]["token_count"] > 600, "a summary was paid for too: no call is so long"
    kept = [message["content"] for message in await agent.messages(thread)]
    assert kept[::2] == ["Hi, my name is Ada.", *said]
    assert kept[1::2] == [first["message"]["content"], *(reply["content"] for reply in replies)]
