"""How often pieces of a reply go out, and what of the worker's loop one account's model servers may take."""

import asyncio
import json

import pytest

from agentchat.contracts import events, frames
from agentchat.contracts.values import Usage
from agentchat.net_guard import Guard
from agentchat.orchestrator.models import Credentials, Meter, ModelCall
from agentchat.orchestrator.models.anthropic.client import AnthropicModel
from agentchat.orchestrator.models.model_interface import ModelClient
from agentchat.orchestrator.models.streamed_reply import SLICE_BYTES
from agentchat.orchestrator.run import channel
from agentchat.orchestrator.run.channel import INTERVAL_SECONDS, PIECES_A_SECOND, PIECES_AT_ONCE, FramePacer
from agentchat.runtime.cpu_budget import CpuBudget
from tests.orchestrator.given import World
from tests.orchestrator.provider_caller import Caller, user
from tests.orchestrator.scripted import Exchange, ScriptedProvider, reply_with

REPLIED = events.ModelReplied(
    trace_id="t", at="", round=1, blocks=(), stop_reason="tool_use", usage=Usage(input_tokens=1)
)
TEXT = [f"{number:04d} " for number in range(5_000)]


def count_sent_over(seconds: float, every: float) -> int:
    """How many pieces go out of a model that has one ready each `every` seconds, so long."""
    pace, now, sent = FramePacer(), 0.0, 0
    while now < seconds:
        sent += 1
        now += max(every, pace.pause_after(now))
    return sent


def test_a_model_of_fifty_pieces_a_second_never_waits() -> None:
    assert count_sent_over(60.0, 1 / 50) == 3_000


def test_fast_model_is_paced_to_twenty_frames_a_second() -> None:
    assert count_sent_over(10.0, 0.0001) <= PIECES_AT_ONCE * 1.1 + 10.0 / INTERVAL_SECONDS


def test_once_a_model_is_slower_again_each_piece_goes_out_at_once() -> None:
    pace = FramePacer()
    assert any(pace.pause_after(0.0) for _ in range(2 * PIECES_AT_ONCE))
    assert pace.pause_after(2 * PIECES_AT_ONCE / PIECES_A_SECOND) == 0.0


class Sent:
    """Takes the frames of a run, while `is_open`."""

    def __init__(self) -> None:
        self.frames: list[frames.Frame] = []
        self.is_open = True

    async def wait_until_allowed(self, frame: frames.Frame) -> None:
        raise AssertionError(f"{frame} waits")

    async def publish_frame(self, trace_id: str, frame: frames.Frame) -> None:
        assert trace_id == "t"
        self.frames.append(frame)

    def take_repeated(self) -> list[tuple[str, int]]:
        """Text and offset of what was sent again since the last call."""
        found, self.frames = self.frames, []
        return [
            (each.text, each.offset) for each in found if isinstance(each, frames.DeltaFrame) and not each.seq
        ]


async def test_text_is_sent_again_from_the_repetition_before_the_last_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channel, "_REPEAT_SECONDS", 0.0)
    sent = Sent()
    seen: list[list[tuple[str, int]]] = []
    run = channel.TraceChannel(sent, "t", 1)
    run.begin_round(1)
    for text in ("ab", "cd", "ef", "", "gh", "the next round: ", "ij"):
        if text == "the next round: ":
            await run.announce([REPLIED])
            run.begin_round(2)
            continue
        await run.send_text(text)
        await run.repeat_text()
        seen.append(sent.take_repeated())
    assert seen == [[("ab", 0)], [("abcd", 0)], [("cdef", 2)], [], [("gh", 6)], [("ij", 8)]]


async def stream_fast(exchange: Exchange) -> None:
    """Each piece of TEXT in a chunk of its own, as fast as they are taken."""
    await exchange.begin()
    await exchange.block(type="text", text="")
    for each in TEXT:
        await exchange.piece(type="text_delta", text=each)
    await exchange.event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 5})
    await exchange.event("message_stop")
    await exchange.close()


@pytest.mark.parametrize("guarded", [False, True])
async def test_pieces_of_a_fast_model_are_joined(system: World, guarded: bool) -> None:
    system.will(stream_fast)
    own = {"base_url": system.provider.url, "provider_key": "sk-own"} if guarded else {}
    caller = await system.ask(await system.agent("demo-shop-1", **own))
    completed = await caller.until(frames.Completed)
    assert completed.message.content == caller.text == "".join(TEXT)
    assert len(caller.of(frames.DeltaFrame)) < len(TEXT) / 5


async def test_an_account_over_its_share_waits_and_another_does_not(provider: ScriptedProvider) -> None:
    budget = CpuBudget(0.5, 0.05)
    model = AnthropicModel(Guard(()), budget)
    budget.spend("busy", 60.0)
    provider.will(reply_with("busy"), reply_with("other"))
    busy = asyncio.create_task(_stream(model, provider.url, "busy"))
    await _stream(model, provider.url, "other")
    assert not busy.done()
    busy.cancel()
    await asyncio.wait([busy])
    await model.aclose()


async def _stream(model: ModelClient, url: str, account_id: str) -> None:
    call = ModelCall(model="demo", system="", messages=[user("hi")], parameters={}, account_id=account_id)
    await model.stream(Credentials(url, "sk-test"), call, None, Meter())


async def test_a_long_write_is_read_in_slices(provider: ScriptedProvider, caller: Caller) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.open_stream()
        start = {"type": "message_start", "message": {"id": "m", "model": "m", "usage": {}}}
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        piece = {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "x" * 1000},
        }
        end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}
        sent = [start, block, *[piece] * 200, end, {"type": "message_stop"}]
        await exchange.write(b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in sent))
        await exchange.close()

    provider.will(answer)
    await caller.stream()
    assert "".join(caller.said) == "x" * 200_000
    assert max(map(len, caller.said)) <= SLICE_BYTES
