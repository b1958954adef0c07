"""A worker is killed with runs in every state; the next one takes them up where the log and TRACES left them.

One death serves all tests here: each looks at a run of its own.
"""

import hashlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from agentchat.contracts import events, frames
from agentchat.contracts.tool_messages import ToolRequested
from agentchat.orchestrator.services import Timings
from tests.orchestrator import scripted_chat as chat
from tests.orchestrator.given import Listener, World
from tests.orchestrator.process import orchestrator
from tests.orchestrator.scripted import Exchange, ScriptedProvider, break_off, reply_with, reply_with_calls
from tests.orchestrator.test_tools import SHOP
from tests.orchestrator.toolbox import Toolbox

pytestmark = pytest.mark.slow

_RECOVERY_SECONDS = 15.0


@dataclass
class Aftermath:
    """What callers saw, by what their run was doing when its worker died."""

    world: World
    provider: ScriptedProvider
    box: Toolbox
    callers: dict[str, Listener] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def calls(self, name: str) -> list[Exchange]:
        """The model calls of one run: each begins with its name."""
        return [call for call in self.provider.calls if _name(call) == name]


def _name(exchange: Exchange) -> str:
    content = exchange.body["messages"][0]["content"]
    return str(content if isinstance(content, str) else content[0]["text"])


@pytest.fixture(scope="module")
async def after(world: World, provider: ScriptedProvider) -> AsyncIterator[Aftermath]:
    async with Toolbox(world.bus).open() as box:
        aftermath = Aftermath(world, provider, box)
        box.run = _silence_worker
        provider.will(_Model(aftermath).answer)
        plain = await world.agent("demo-shop-1")
        agents = {
            "quiet": plain,
            "talking": plain,
            "told": await world.agent("claude-opus-5"),
            "openai": await world.agent("gpt-5", provider="openai"),
            "failing": await world.agent("demo-shop-1", on_interruption="fail"),
            "tooling": await world.agent("demo-shop-1", **SHOP),
        }
        async with orchestrator(world.settings, "first") as first:
            for name, agent in agents.items():
                aftermath.callers[name] = await world.ask(agent, name)
            for name in ("talking", "told", "openai", "failing"):
                await aftermath.callers[name].wait_until_said("It has ")
            await box.wait_until_requested(3)
            await aftermath.callers["quiet"].until(frames.Accepted)
            await first.kill()
        died = time.monotonic()
        tools = {request.call_id: request for request in box.requested}
        await box.finish(tools["a"], '{"answered":"while nobody listened"}')
        async with world.worker("second", timings=Timings(tool_seconds=2.0, tool_slack_seconds=0.5)):
            for name, caller in aftermath.callers.items():
                await caller.until(frames.Resumed, seconds=30.0)
                aftermath.seconds[name] = time.monotonic() - died
            await box.finish(tools["b"], '{"answered":"late"}')
            for caller in aftermath.callers.values():
                await caller.wait_until_ended()
        yield aftermath


class _Model:
    """The first call of a run hangs (but for the tools' run); later ones go on."""

    def __init__(self, aftermath: Aftermath) -> None:
        self._aftermath = aftermath

    async def answer(self, exchange: Exchange) -> None:
        name = _name(exchange)
        first = len(self._aftermath.calls(name)) == 1
        match name:
            case "quiet":
                answer = break_off(how="hang") if first else reply_with("It ", "has ", "shipped.")
            case "openai":
                answer = chat.break_off("It ", "has ", how="hang") if first else chat.reply_with("shipped.")
            case "tooling":
                calls = (("a", "order", "{}"), ("b", "find", "{}"), ("c", "order", '{"again": true}'))
                answer = reply_with_calls(*calls, text="Let me see. ") if first else reply_with("Done.")
            case _:
                answer = break_off("It ", "has ", how="hang") if first else reply_with("shipped.")
        await answer(exchange)


async def _silence_worker(_request: ToolRequested) -> str | None:
    return None


async def test_every_run_resumes_once_the_lease_has_expired(after: Aftermath) -> None:
    """Reliability G5 asks for the next attempt within 12 s; a loaded machine gets some more."""
    assert max(after.seconds.values()) <= _RECOVERY_SECONDS
    for name, caller in after.callers.items():
        attempts = [e.attempt for e in await after.world.events(caller) if isinstance(e, events.RunStarted)]
        assert attempts == [1, 2], name


async def test_a_run_that_had_said_nothing_begins_again(after: Aftermath) -> None:
    caller = after.callers["quiet"]
    (resumed,) = caller.of(frames.Resumed)
    assert (resumed.seq, resumed.attempt, resumed.offset) == (1, 2, 0)
    (completed,) = caller.of(frames.Completed)
    assert completed.message.content == caller.text == "It has shipped."


@pytest.mark.parametrize("name", ["talking", "told", "openai"])
async def test_a_reply_goes_on_behind_what_was_sent(after: Aftermath, name: str) -> None:
    caller = after.callers[name]
    (resumed,) = caller.of(frames.Resumed)
    assert (resumed.offset, resumed.sha256) == (len("It has "), hashlib.sha256(b"It has ").hexdigest())
    (completed,) = caller.of(frames.Completed)
    assert completed.message.content == caller.text == "It has shipped."
    (delta,) = [event for event in await after.world.events(caller) if isinstance(event, events.Delta)]
    assert delta.text == "It has shipped."
    assert delta.cuts[-2:] == (7, 15)
    last = after.calls(name)[1].messages[-1]
    assert last["role"] == ("assistant" if name == "talking" else "user")


async def test_an_agent_that_is_not_to_go_on_fails_with_the_text_so_far(after: Aftermath) -> None:
    caller = after.callers["failing"]
    (failed,) = caller.of(frames.Failed)
    assert failed.code == "generation_interrupted"
    run = await after.world.run(caller)
    assert (run.state, run.text) == ("failed", "It has ")
    assert len(after.calls("failing")) == 1


async def test_lost_results_are_recovered_without_a_second_call(after: Aftermath) -> None:
    caller = after.callers["tooling"]
    assert sorted(request.call_id for request in after.box.requested) == ["a", "b", "c"]
    assert [frame.call_id for frame in caller.of(frames.ToolReturnedFrame)] == ["a", "b", "c"]
    outputs = await after.world.outputs(caller)
    assert outputs["a"] == '{"answered":"while nobody listened"}'
    assert outputs["b"] == '{"answered":"late"}'
    assert "unknown" in outputs["c"]
    (completed,) = caller.of(frames.Completed)
    assert completed.message.content == caller.text == "Let me see. Done."
    assert len(after.calls("tooling")) == 2
    assert [frame.call_id for frame in caller.of(frames.ToolCalledFrame)] == ["a", "b", "c"]
