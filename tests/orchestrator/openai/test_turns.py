"""Whole turns on a server of this API, and threads whose agent changes its provider."""

import pytest
from msgspec.structs import replace

from agentchat.bus.commands import check_agent
from agentchat.contracts import frames
from tests.orchestrator import scripted, scripted_chat
from tests.orchestrator.given import World
from tests.orchestrator.scripted import Answer
from tests.orchestrator.scripted_chat import (
    DONE,
    calls,
    chunk,
    count_tokens,
    fail_with,
    reply_with,
    send_chunks,
    text,
)
from tests.orchestrator.test_tools import SHOP
from tests.orchestrator.toolbox import Toolbox

GEMINI = {"dialect": "gemini"}
SIGNED = {"google": {"thought_signature": "c2ln"}}


def error(message: str, code: str | None = None) -> dict[str, object]:
    return {"error": {"message": message, "code": code}}


def roles(world: World) -> list[str]:
    """Of the messages of the last call."""
    return [message["role"] for message in world.calls[-1].body["messages"]]


async def test_reasoning_goes_back_within_the_run_and_no_further(system: World, box: Toolbox) -> None:
    call = {"index": 0, "id": "c1", "function": {"name": "order", "arguments": "{}"}}
    thought = chunk({"reasoning_content": "I should look."})
    agent = await system.agent(provider="openai", parameters={"dialect": "deepseek"}, **SHOP)
    system.will(
        send_chunks(thought, calls(call), chunk(finish="tool_calls"), count_tokens(), DONE),
        reply_with("Shipped."),
    )
    first = await system.chat(agent)
    assert system.calls[1].body["messages"][1]["reasoning_content"] == "I should look."
    await system.continue_chat(first, "And?")
    assert roles(system) == ["user", "assistant", "tool", "assistant", "user"]
    shown = system.calls[-1].body["messages"]
    assert [message.get("reasoning_content") for message in shown] == [None, "", None, "", None]


async def test_an_agent_changes_its_provider_in_mid_thread_and_back(system: World, box: Toolbox) -> None:
    """Each is shown the whole thread in its own shapes, and nobody's data but its own."""
    agent = await system.agent(**SHOP)
    asked = ("toolu_1", "order", '{"id": 1}')
    system.will(scripted.reply_with_calls(asked, text="Let me see. "), scripted.reply_with("Shipped."))
    first = await system.chat(agent, "Where is it?")

    await system.change_agent(agent, provider="openai", parameters=GEMINI, provider_key="k")
    call = {"index": 0, "id": "", "extra_content": SIGNED, "function": {"name": "find", "arguments": "{}"}}
    thought = chunk({"reasoning_content": "Hm."})
    system.will(
        send_chunks(thought, calls(call), chunk(finish="stop"), count_tokens(), DONE),
        send_chunks(text("Found."), chunk(finish="stop"), DONE),
    )
    await system.continue_chat(first, "And the other?")
    assert roles(system) == ["user", "assistant", "tool", "assistant", "user", "assistant", "tool"]
    shown = system.calls[-1].body["messages"]
    assert shown[1]["tool_calls"][0]["id"] == shown[2]["tool_call_id"] == "toolu_1"
    assert shown[5]["tool_calls"][0]["extra_content"] == SIGNED

    await system.change_agent(agent, provider="anthropic", parameters={}, provider_key="k")
    system.will(scripted.reply_with("Yes."))
    await system.continue_chat(first, "Sure?")
    blocks = [block for message in system.calls[-1].body["messages"] for block in message["content"]]
    assert [block["type"] for block in blocks if block["type"] != "text"] == ["tool_use", "tool_result"] * 2
    assert not [block for block in blocks if "provider_data" in block]

    await system.change_agent(agent, provider="openai", parameters=GEMINI, provider_key="k")
    system.will(scripted_chat.reply_with("Yes, again."))
    await system.continue_chat(first, "Really?")
    shown = system.calls[-1].body["messages"]
    assert [message.get("tool_calls", [{}])[0].get("extra_content") for message in shown].count(SIGNED) == 1


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (reply_with("Hello"), "ok", ""),
        (
            fail_with(404, {"error": {"message": "The model x", "code": "model_not_found"}}),
            "model_not_found",
            "The model x",
        ),
        (
            fail_with(400, {"error": {"message": "Unsupported value: 'temperature'"}}),
            "bad_parameter",
            "'temperature'",
        ),
        (fail_with(429, error("SECRET", "insufficient_quota")), "billing", "out of credit"),
    ],
)
async def test_a_check_asks_the_provider_for_the_model_and_its_parameters(
    system: World, answer: Answer, code: str, words: str
) -> None:
    system.will(answer)
    agent = await system.agent("x", provider="openai", parameters={"temperature": 0.5})
    found = (await check_agent(system.bus.rpc, system.account_id, agent, 1)).provider
    assert found.code == code
    assert found.ok == (code == "ok")
    assert words in found.detail
    assert "SECRET" not in found.detail
    assert [(call.body["model"], call.body["temperature"]) for call in system.calls] == [("x", 0.5)]


async def test_takeover_uses_the_recorded_parameters(system: World) -> None:
    agent = await system.agent(
        provider="openai", parameters={"dialect": "openai", "max_tokens": 9}, provider_key="k"
    )
    request = system.request(agent, parameters={"temperature": 0.5, "max_tokens": 7, "seed": 1})
    await system.store_open_run(request)
    system.will(reply_with("Hello."))
    listener = await system.listen(request)
    await system.bus.queues.request_chat(replace(request, attempt=2, parameters=None))
    await listener.until(frames.Completed)
    sent = system.calls[-1].body
    assert (sent["temperature"], sent["max_completion_tokens"]) == (0.5, 7)
    assert not {"max_tokens", "seed"} & sent.keys()
