"""A long thread on the offline model with a small context window."""

import json

from contracts import events, frames
from model_demo import answer, controls
from model_demo.request_facts import ConversationFacts
from model_demo.wire import anthropic, token_counts
from tests.orchestrator.given import World
from tests.orchestrator.scripted import Exchange

TURNS, WINDOW = 100, 1_000


async def test_a_hundred_turns_fit_into_the_window_and_the_first_is_still_known(working: World) -> None:
    read: list[int] = []

    async def demo(exchange: Exchange) -> None:
        asked = anthropic.asked(json.dumps(exchange.body).encode()).request
        reply = answer.reply(asked, ConversationFacts(asked), *controls.parse(asked.model))
        read.append(token_counts.of_request(asked).total)
        await exchange.begin(input_tokens=read[-1], output_tokens=1)
        await exchange.text(reply.text)
        await exchange.end(output_tokens=token_counts.of_text(reply.text))

    working.will(demo)
    small = {"context_window": WINDOW, "at_share": 0.2, "keep_runs": 2}
    first = await working.answered(await working.agent("demo-shop-1", compaction=small), "My name is Ada.")
    for number in range(1, TURNS):
        await (await working.go_on(first, f"Thanks {number}")).until(frames.Completed)
    last = await working.go_on(first, "What is my name?")
    assert (await last.until(frames.Completed)).message.content == "Your name is Ada."
    assert max(read) <= WINDOW
    summaries = sum(isinstance(each, events.ContextCompacted) for each in await working.events(first))
    assert 5 < summaries < TURNS // 5
