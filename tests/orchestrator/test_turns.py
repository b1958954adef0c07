"""A request's life, from its delivery to its end in the log and on the trace channel."""

from typing import Any

import pytest

from agentchat.contracts import events, frames, wire
from agentchat.contracts.ids import make_id
from agentchat.contracts.values import Usage
from agentchat.directory.secret_encryption import Sealer
from tests.bus.queue_state import wait_until_all_acknowledged
from tests.orchestrator.given import SECRET, World
from tests.orchestrator.scripted import break_off, fail_with, reply_with


async def test_a_message_is_saved_answered_and_announced(system: World) -> None:
    system.will(reply_with("It ", "has ", "shipped."))
    caller = await system.ask(await system.agent(system_prompt="Be brief."), "Where is it?")
    completed = await caller.until(frames.Completed)
    assert completed.message.content == caller.text == "It has shipped."
    assert completed.message.token_count == 15
    assert [frame.seq for frame in caller.frames] == list(range(1, len(caller.frames) + 1))
    assert isinstance(caller.frames[0], frames.Accepted)
    stored = await system.events(caller)
    assert [type(event) for event in stored] == [
        events.ConversationStarted,
        events.MessageSaved,
        events.RunStarted,
        events.Delta,
        events.ModelReplied,
        events.MessageSaved,
        events.RunCompleted,
    ]
    delta, replied = stored[3:5]
    assert isinstance(delta, events.Delta)
    assert delta.cuts == (3, 7, 15)
    assert isinstance(replied, events.ModelReplied)
    assert isinstance(replied.first_token_ms, int)
    assert 0 <= replied.first_token_ms < 60_000
    assert system.calls[0].system == "Be brief."


async def test_the_provider_gets_a_pseudonym_of_the_end_user(system: World) -> None:
    """The conversation's user, also for a request of the account itself; never the id."""
    system.will(reply_with("Hello."))
    agent = await system.agent()
    first = await system.chat(agent, user_id="ada@shop.example")
    thread: dict[str, Any] = {"conversation_id": first.request.conversation_id, "new_conversation": False}
    await (await system.ask(agent, **thread)).until(frames.Completed)
    await (await system.ask(agent)).until(frames.Completed)
    named, again, unnamed = (each.body for each in system.calls)
    pseudonym = Sealer.from_setting(SECRET).hash_user(system.account_id, "ada@shop.example")
    assert named["metadata"] == again["metadata"] == {"user_id": pseudonym}
    assert "metadata" not in unnamed


async def test_a_conversation_of_another_user_is_not_found(system: World) -> None:
    system.will(reply_with("Hello."))
    agent = await system.agent()
    first = await system.chat(agent, user_id="ada", title="A parcel", metadata={"channel": "web"})
    started = (await system.events(first))[0]
    assert isinstance(started, events.ConversationStarted)
    assert (started.user_id, started.title, started.metadata) == ("ada", "A parcel", {"channel": "web"})
    thread: dict[str, Any] = {"conversation_id": first.request.conversation_id, "new_conversation": False}
    refused = await (await system.ask(agent, user_id="bob", **thread)).until(frames.Refused)
    assert refused.code == "conversation_not_found"


async def test_a_refused_request_leaves_the_queue_before_its_caller_knows(
    system: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its caller asks again: should its worker die now, it must not come again, and perhaps begin."""
    before = await wait_until_all_acknowledged(system.settings.nats_url, "REQUESTS")
    monkeypatch.setattr("agentchat.bus.queue_consumer._HELD_SECONDS", 3600.0)
    caller = await system.ask(make_id())
    await caller.until(frames.Refused)
    assert await wait_until_all_acknowledged(system.settings.nats_url, "REQUESTS") == before + 1


async def test_redelivered_finished_request_is_announced_again(system: World) -> None:
    system.will(reply_with("Once."))
    caller = await system.ask(await system.agent())
    completed = await caller.until(frames.Completed)
    again = await system.listen(caller.request)
    await system.bus.queues.request_chat(system.again(caller.request))
    repeated = await again.until(frames.Completed)
    assert (repeated.message, repeated.seq, repeated.attempt) == (completed.message, 0, 1)
    assert len(system.calls) == 1
    assert len(await system.events(caller)) == 7


async def test_an_invalid_request_is_dead_lettered_without_delay(system: World) -> None:
    system.will(reply_with("Still here."))
    whole = wire.encode(system.request("agent", deadline="tomorrow"))
    poison = [
        b'{"type":"ChatRequested","trace_id":',
        whole,
        whole.replace(b"Hello", b"\xff"),
        b'{"x":' * 5000,
    ]
    for data in poison:
        await system.publish_raw(data)
    await system.chat(await system.agent())
    buried = {message.payload for message in await system.read_dead_letters("REQUESTS")}
    assert buried == {data.decode("utf-8", "replace") for data in poison}


@pytest.mark.parametrize(
    ("stop_reason", "code"), [("refusal", "provider_refused"), ("pause_turn", "provider_error")]
)
async def test_a_reply_that_the_model_does_not_stand_by_is_interrupted(
    system: World, stop_reason: str, code: str
) -> None:
    system.will(reply_with("I would", stop_reason=stop_reason), reply_with("Gladly."))
    caller = await system.ask(await system.agent())
    failed = await caller.until(frames.Failed)
    assert failed.code == code
    ended = await system.run(caller)
    assert (ended.state, ended.code, ended.text) == ("failed", code, "I would")
    assert ended.usage == Usage(input_tokens=10, output_tokens=5)
    (_, saved) = [each for each in await system.events(caller) if isinstance(each, events.MessageSaved)]
    assert (saved.content, saved.interrupted) == ("I would", True)
    after = await system.go_on(caller, "And now?")
    assert (await after.until(frames.Completed)).message.content == "Gladly."


async def test_an_empty_reply_fails_the_run_and_not_the_conversation(system: World) -> None:
    system.will(reply_with(), reply_with(), reply_with(), reply_with("Hello."))
    caller = await system.ask(await system.agent())
    failed = await caller.until(frames.Failed)
    assert (failed.code, failed.message) == ("provider_error", "The model provider returned an empty reply.")
    await system.continue_chat(caller, "And now?")
    assert system.calls[3].last_text == "And now?"


async def test_words_of_the_provider_are_for_administrators(system: World) -> None:
    system.will(fail_with(400, "invalid_request_error", "tools.3: too long, see key-of-tests"))
    caller = await system.ask(await system.agent(provider_key="key-of-tests"))
    failed = await caller.until(frames.Failed)
    assert "too long" not in failed.message
    run = await system.run(caller)
    assert (run.detail, run.provider_message) == (failed.message, "tools.3: too long, see [hidden]")


async def test_an_agent_without_a_key_fails_and_says_so(system: World) -> None:
    system.will(reply_with("never"))
    caller = await system.ask(await system.agent(provider_key=None))
    failed = await caller.until(frames.Failed)
    assert (failed.code, failed.message) == ("provider_error", "The agent has no provider key.")


async def test_a_reply_that_breaks_off_is_gone_on_with_by_prefill(system: World) -> None:
    system.will(break_off("It has ", how="close"), reply_with(" ship", "ped."))
    caller = await system.ask(await system.agent("demo-shop-1"), "Where is it?")
    completed = await caller.until(frames.Completed)
    assert completed.message.content == caller.text == "It has shipped."
    assert completed.message.token_count == 10 + 2 + 10 + 5
    assert system.calls[1].messages[-1] == {
        "role": "assistant",
        "content": [{"type": "text", "text": "It has"}],
    }
    (round_,) = (await system.run(caller)).rounds
    assert round_.blocks == ({"type": "text", "text": "It has shipped."},)
    assert round_.text == "It has shipped."


async def test_a_reply_that_breaks_off_again_fails_and_its_text_is_kept(system: World) -> None:
    system.will(break_off("It has", how="close"), break_off(" shi", how="reset"))
    caller = await system.ask(await system.agent("demo-shop-1"))
    assert (await caller.until(frames.Failed)).code == "provider_error"
    ended = await system.run(caller)
    assert ended.text == caller.text == "It has shi"
    assert len(system.calls) == 2
