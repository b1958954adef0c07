"""What a model thinks: how it is asked for, where it is found in a reply, and who gets it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from agentchat.contracts import frames
from agentchat.directory.agent_config import AgentConfig
from agentchat.net_guard import Guard
from agentchat.orchestrator.models import Credentials, Meter, ModelCall
from agentchat.orchestrator.models.anthropic.client import AnthropicModel
from agentchat.orchestrator.models.openai.completion_stream import OpenAIReply
from agentchat.orchestrator.models.openai.dialects import DIALECTS
from agentchat.orchestrator.models.openai.request_messages import build_messages
from agentchat.orchestrator.models.streamed_reply import StreamedReply
from agentchat.orchestrator.models.thinking import ThinkTags, ask_for_thinking
from agentchat.orchestrator.run.interrupted_text import read_sent_output
from agentchat.orchestrator.services import Timings
from tests.orchestrator.given import World
from tests.orchestrator.provider_caller import user
from tests.orchestrator.scripted import Answer, Exchange, ScriptedProvider
from tests.orchestrator.test_resume import _make_accepted, _run

SUMMARIZED = {"type": "adaptive", "display": "summarized"}


def think(*thoughts: str, said: str = "It left.", breaks: bool = False, hangs: bool = False) -> Answer:
    """A reply that begins with these blocks of thinking."""

    async def answer(exchange: Exchange) -> None:
        await exchange.begin()
        for thought in thoughts:
            await exchange.block(type="thinking", thinking="", signature="")
            await exchange.piece(type="thinking_delta", thinking=thought)
            await exchange.piece(type="signature_delta", signature="s")
        if hangs:
            await asyncio.Event().wait()
        if breaks:
            await exchange.close()
            return
        await exchange.text(said)
        await exchange.end()

    return answer


@pytest.mark.parametrize(
    ("model", "reasoning", "own", "asked"),
    [
        ("claude-opus-4-7", "summary", {}, SUMMARIZED),
        ("us.anthropic.claude-opus-5-5", "summary", {}, SUMMARIZED),
        ("demo-shop-1?think=1", "summary", {}, SUMMARIZED),
        (
            "claude-sonnet-5",
            "summary",
            {"type": "enabled", "budget_tokens": 2000},
            {"type": "enabled", "budget_tokens": 2000, "display": "summarized"},
        ),
        (
            "claude-opus-4-7",
            "summary",
            {"type": "adaptive", "display": "omitted"},
            {"type": "adaptive", "display": "omitted"},
        ),
        ("claude-opus-4-7", "summary", {"type": "disabled"}, {"type": "disabled"}),
        (
            "claude-haiku-4-5",
            "summary",
            {"type": "enabled", "budget_tokens": 2000},
            {"type": "enabled", "budget_tokens": 2000},
        ),
        ("claude-3-7-sonnet-latest", "summary", {}, None),
        ("another-model", "summary", {}, None),
        ("claude-opus-4-7", "hidden", {"type": "adaptive"}, {"type": "adaptive"}),
        ("claude-opus-4-7", "hidden", {}, None),
    ],
)
def test_thinking_is_requested_in_the_models_form(
    model: str, reasoning: Any, own: dict[str, Any], asked: dict[str, Any] | None
) -> None:
    agent = AgentConfig(
        name="a",
        model=model,
        agent_id="a",
        account_id="a",
        version=1,
        reasoning=reasoning,
        parameters={"thinking": own} if own else {},
    )
    assert ask_for_thinking(agent).parameters.get("thinking") == asked


TAGGED = [
    ("<think>Two <b> orders</think>\n\nIt left.", "Two <b> orders", "It left."),
    ("\n <think>\nHm </thin king</think>Yes </think>", "Hm </thin king", "Yes </think>"),
    ("<think></think> Yes", "", "Yes"),
    ("<think>cut sho</th", "cut sho</th", ""),
    ("<thinker> said so", "", "<thinker> said so"),
    ("<thi", "", "<thi"),
    ("No <think>x</think>", "", "No <think>x</think>"),
]


@pytest.mark.parametrize(("text", "thought", "said"), TAGGED)
def test_tags_are_found_wherever_the_text_is_split(text: str, thought: str, said: str) -> None:
    for places in ((place,) for place in range(len(text) + 1)):
        assert _split(text, *places) == (said, thought)
    assert _split(text, *range(len(text))) == (said, thought)


def _split(text: str, *places: int) -> tuple[str, str]:
    tags, ends = ThinkTags(), [*places, len(text)]
    pieces = [tags.split(text[a:b]) for a, b in zip([0, *ends], ends, strict=False)] + [tags.flush()]
    return "".join(said for said, _ in pieces), "".join(thought for _, thought in pieces)


def _feed(reply: StreamedReply, *deltas: dict[str, Any]) -> tuple[str, str]:
    chunks = [{"choices": [{"delta": delta}]} for delta in deltas]
    usage = {"completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 3}}
    end = {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage}
    fed = [reply.feed(b"data: " + msgspec.json.encode(chunk) + b"\n\n")[0] for chunk in [*chunks, end]]
    return "".join(fed), reply.take_reasoning()


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thinking_of_a_compatible_server_comes_apart_from_its_text(field: str) -> None:
    reply = OpenAIReply()
    fed = _feed(reply, {field: "Two "}, {field: "orders."}, {"content": "It left."}, {field: "Late."})
    assert fed == ("It left.", "Two orders.")
    assert reply.usage.reasoning_tokens == 3


def test_tagged_thinking_is_a_block_that_does_not_go_back() -> None:
    reply = OpenAIReply(think_tags=True)
    assert _feed(reply, {"content": "<think>Two</th"}, {"content": "ink>It left."}) == ("It left.", "Two")
    thinking, text = reply.complete().blocks
    assert (thinking["thinking"], text["text"]) == ("Two", "It left.")
    call = ModelCall(
        model="m", system="", parameters={}, messages=[{"role": "assistant", "content": [thinking, text]}]
    )
    assert build_messages(call, DIALECTS["compatible"]) == [{"role": "assistant", "content": "It left."}]
    assert _feed(OpenAIReply(), {"content": "<think>Two</think>"}) == ("<think>Two</think>", "")


async def test_a_retry_does_not_think_aloud_again(provider: ScriptedProvider) -> None:
    provider.will(think("The first thou", breaks=True), think("Two orders", "are open."))
    said: dict[str, list[str]] = {"text": [], "reasoning": []}

    def note(kind: str) -> Callable[[str], Awaitable[None]]:
        async def add(piece: str) -> None:
            said[kind].append(piece)

        return add

    client = AnthropicModel(Guard((urlsplit(provider.url).netloc,)))
    call = ModelCall(model="claude-x", system="", messages=[user("hi")], parameters={})
    credentials = Credentials(provider.url, "sk-test")
    reply = await client.stream(credentials, call, note("text"), Meter(), note("reasoning"))
    await client.aclose()
    assert said == {"text": ["It left."], "reasoning": ["The first thou"]}
    assert [block["thinking"] for block in reply.blocks[:2]] == ["Two orders", "are open."]


def test_a_take_over_knows_of_which_round_reasoning_was_sent() -> None:
    thought = frames.ReasoningFrame(seq=2, attempt=1, round=1, text="x", offset=0)
    assert read_sent_output(_run(), [_make_accepted(), thought]).reasoned_round == 1
    assert read_sent_output(_run(), [_make_accepted()]).reasoned_round == 0


@pytest.mark.parametrize("reasoning", ["hidden", "summary"])
async def test_a_run_sends_its_reasoning_if_the_agent_shows_it(world: World, reasoning: str) -> None:
    world.will(think("Two orders", "are open."))
    async with world.worker():
        caller = await world.ask(await world.agent(model="claude-opus-4-7", reasoning=reasoning))
        completed = await caller.until(frames.Completed)
    thoughts = caller.of(frames.ReasoningFrame)
    shown = "Two orders\n\nare open." if reasoning == "summary" else ""
    assert "".join(each.text for each in thoughts) == shown
    assert completed.message.content == "It left."
    assert world.calls[-1].body.get("thinking") == (SUMMARIZED if reasoning == "summary" else None)
    (round_,) = (await world.run(caller)).rounds
    assert [block["type"] for block in round_.blocks or ()] == ["thinking", "thinking", "text"]


async def test_the_next_worker_thinks_for_itself_in_a_round_that_was_shown(world: World) -> None:
    world.will(think("The old wor", hangs=True), think("A new thought."))
    async with world.worker("old", timings=Timings(drain_seconds=0.2)):
        caller = await world.ask(await world.agent(model="claude-opus-4-7", reasoning="summary"))
        await caller.until(frames.ReasoningFrame)
    async with world.worker("new"):
        completed = await caller.until(frames.Completed)
    assert completed.message.content == "It left."
    assert [each.text for each in caller.of(frames.ReasoningFrame)] == ["The old wor"]
    assert [each.reasoning for each in (await world.run(caller)).rounds] == ["A new thought."]
