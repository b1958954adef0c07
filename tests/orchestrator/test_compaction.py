"""Long threads: earlier runs are summarised by the agent's model, before a call that would be too long."""

import hashlib
from typing import Any

from agentchat.contracts import events, frames
from agentchat.contracts.values import Usage
from agentchat.directory.compaction_settings import PROMPT
from tests.orchestrator.given import Listener, World
from tests.orchestrator.scripted import Answer, Exchange, fail_with, reply_with

SMALL: dict[str, Any] = {"context_window": 1000, "at_share": 0.5, "keep_runs": 1}
TOO_LONG = fail_with(400, "invalid_request_error", "prompt is too long: 1001 tokens > 1000 maximum")


def reply_filling_window(tokens: int, *pieces: str) -> Answer:
    """A reply to a prompt of so many tokens, in 5."""

    async def answer(exchange: Exchange) -> None:
        await exchange.begin(input_tokens=tokens, output_tokens=1)
        await exchange.text(*pieces)
        await exchange.end()

    return answer


def texts(call: Exchange) -> list[str]:
    return [block["text"] for message in call.messages for block in message["content"] if "text" in block]


async def thread(world: World, agent: str, *messages: str) -> Listener:
    """What was asked for first, once all of them are answered."""
    first = await world.chat(agent, messages[0])
    for message in messages[1:]:
        await world.continue_chat(first, message)
    return first


async def summaries(world: World, listener: Listener) -> list[events.ContextCompacted]:
    return [event for event in await world.events(listener) if isinstance(event, events.ContextCompacted)]


async def test_at_a_share_of_the_window_earlier_runs_are_summarised_first(system: World) -> None:
    system.will(
        reply_with("Hi Ada."),
        reply_filling_window(600, "Well."),
        reply_filling_window(700, "Ada said hello."),
        reply_with("Done."),
    )
    agent = await system.agent(
        system_prompt="Be brief.", parameters={"max_tokens": 9, "stop_sequences": ["x"]}, compaction=SMALL
    )
    first = await thread(system, agent, "I am Ada.", "And?")
    third = await system.go_on(first, "So?")
    completed = await third.until(frames.Completed)
    assert completed.message.content == third.text == "Done."
    asking, after = system.calls[2:]
    assert texts(asking) == ["I am Ada.", "Hi Ada.", PROMPT]
    assert asking.messages[:2] == system.calls[1].messages[:2], "the prefix is that of the calls before"
    assert (asking.system, asking.body["max_tokens"], asking.body.get("stop_sequences")) == (
        "Be brief.",
        4096,
        None,
    )
    assert "Ada said hello." in texts(after)[0]
    assert texts(after)[1:] == ["And?", "Well.", "So?"]
    (summary,) = await summaries(system, first)
    stored = await system.events(first)
    assert stored[summary.through_version] == next(
        e for e in stored if isinstance(e, events.MessageSaved) and e.content == "And?"
    )
    assert summary.summary == "Ada said hello."
    assert summary.usage == Usage(input_tokens=700, output_tokens=5)
    assert summary.prompt_sha256 == hashlib.sha256(PROMPT.encode()).hexdigest()
    assert completed.message.token_count == 705 + 15
    assert (await system.run(third)).usage.total == 720


async def test_too_long_prompt_is_summarised_and_retried_once(system: World) -> None:
    system.will(
        reply_with("Hi."), reply_with("Well."), TOO_LONG, reply_with("They met."), reply_with("Done.")
    )
    first = await thread(
        system, await system.agent(compaction=SMALL | {"context_window": 1_000_000}), "One", "Two", "Three"
    )
    assert texts(system.calls[3]) == ["One", "Hi.", PROMPT]
    assert texts(system.calls[4])[1:] == ["Two", "Well.", "Three"]
    assert len(await summaries(system, first)) == 1


async def test_what_is_too_long_to_be_summarised_at_once_is_in_parts(system: World) -> None:
    system.will(
        *(reply_with("1"), reply_with("2"), reply_with("3"), reply_with("4"), TOO_LONG),
        *(TOO_LONG, reply_with("First half."), reply_with("All of it."), reply_with("Done.")),
    )
    agent = await system.agent(compaction={"keep_runs": 0})
    first = await thread(system, agent, "One", "Two", "Three", "Four", "Five")
    whole, send_half, rest, after = system.calls[5:]
    assert [len(texts(call)) for call in (whole, send_half)] == [9, 5]
    assert "First half." in texts(rest)[0]
    assert texts(rest)[1:-1] == ["Three", "3", "Four", "4"]
    assert "All of it." in texts(after)[0]
    assert texts(after)[1:] == ["Five"]
    assert [each.summary for each in await summaries(system, first)] == ["First half.", "All of it."]


async def test_a_run_that_is_taken_over_continues_after_its_summary(world: World) -> None:
    """Its worker died when the summary was in the log, and nothing relied on it yet."""
    world.will(reply_filling_window(600, "Hi."), reply_with("Done."))
    async with world.worker():
        first = await thread(world, await world.agent(compaction=SMALL | {"keep_runs": 0}), "One")
    request = world.request(
        first.request.agent_id, "Two", conversation_id=first.request.conversation_id, new_conversation=False
    )
    conversation = await world.conversation(first)
    compacted = events.ContextCompacted(
        trace_id=request.trace_id,
        at=request.requested_at,
        through_version=conversation.version,
        summary="They met.",
        model="demo",
        prompt_sha256="",
        usage=Usage(input_tokens=600),
    )
    await world.store_open_run(request, compacted)
    async with world.worker():
        caller = await world.request_again(request)
        completed = await caller.until(frames.Completed)
    (call,) = world.calls[1:]
    assert "They met." in texts(call)[0]
    assert texts(call)[1:] == ["Two"]
    assert completed.message.token_count == 600 + 15


async def test_provider_summarises_if_the_agent_says_so(system: World) -> None:
    block = {"type": "compaction", "content": "They met.", "encrypted_content": "x", "signature": "s"}

    async def reply_with_summary(exchange: Exchange) -> None:
        await exchange.begin(input_tokens=600)
        await exchange.block(type="compaction", content=None, signature="s")
        await exchange.piece(type="compaction_delta", content="They met.", encrypted_content="x")
        await exchange.event("content_block_stop", index=0)
        await exchange.end("compaction")

    system.will(
        reply_filling_window(600, "Hi."),
        reply_filling_window(600, "Well."),
        reply_with_summary,
        reply_with("Done."),
        reply_with("Bye."),
    )
    agent = await system.agent(compaction=SMALL | {"by": "provider"})
    first = await thread(system, agent, "One", "Two", "Three", "Four")
    plain, asking, *after = system.calls[1:]
    assert asking.body["compaction"] == {"type": "summarize"}
    assert texts(asking) == ["One", "Hi."]
    assert asking.headers["anthropic-beta"] == after[0].headers["anthropic-beta"] == "compact-2026-09-04"
    assert "anthropic-beta" not in plain.headers
    assert [call.messages[0] for call in after] == [{"role": "assistant", "content": [block]}] * 2
    assert texts(after[0]) == ["Two", "Well.", "Three"]
    (summary,) = await summaries(system, first)
    assert (summary.summary, summary.provider_data) == ("They met.", {"anthropic": block})
