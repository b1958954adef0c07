"""An agent whose model is at an address of its own: called through the guard, with its own key alone."""

import pytest

from agentchat.contracts import events, frames
from tests.orchestrator import scripted_chat
from tests.orchestrator.given import World
from tests.orchestrator.scripted import Answer, reply_with
from tests.orchestrator.test_provider_check import check

NOWHERE = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("name", "answer"), [("anthropic", reply_with("Well")), ("openai", scripted_chat.reply_with("Well"))]
)
async def test_the_call_goes_there_with_the_agents_key(world: World, name: str, answer: Answer) -> None:
    world.will(answer)
    async with world.worker("elsewhere", anthropic_base_url=NOWHERE, openai_base_url=NOWHERE):
        agent = await world.agent(provider=name, base_url=world.provider.url, provider_key="sk-own")
        asked = await world.chat(agent, "Hi")
    (call,) = world.calls
    assert "sk-own" in call.headers.get("x-api-key", "") + call.headers.get("authorization", "")
    (replied,) = [each for each in await world.events(asked) if isinstance(each, events.ModelReplied)]
    assert replied.provider == name


@pytest.mark.parametrize("name", ["anthropic", "openai"])
async def test_a_refused_address_is_not_called(system: World, name: str) -> None:
    agent = await system.agent(provider=name, base_url="https://localhost")
    asked = await system.ask(agent, "Hi")
    failed = await asked.until(frames.Failed)
    assert failed.code == "provider_error"
    assert "not allowed" in failed.message
    assert (await check(system, agent)).provider.code == "address_refused"


async def test_the_services_own_key_goes_to_no_other_address(world: World) -> None:
    world.will(reply_with("no"))
    async with world.worker("keyed", anthropic_api_key="sk-of-the-service"):
        agent = await world.agent(base_url=world.provider.url, provider_key=None)
        asked = await world.ask(agent, "Hi")
        assert (await asked.until(frames.Failed)).code == "provider_error"
        assert (await check(world, agent)).provider.code == "no_key"
    assert world.calls == []
