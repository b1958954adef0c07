"""A model fails, and another one of the agent goes on: whole or an error, and never mixed without a note."""

import asyncio
import itertools
import json
from typing import Any

import pytest
from msgspec.structs import replace

from agentchat.bus.commands import check_agent
from agentchat.contracts import events, frames
from agentchat.contracts.values import Usage
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.rounds import Round
from agentchat.directory.agent_config import AgentConfig, Fallback
from agentchat.orchestrator.models import ModelFailure
from agentchat.orchestrator.models.circuit_breaker import FailingModels
from agentchat.orchestrator.models.model_interface import make_timeout
from agentchat.orchestrator.run.fall_back import classify_failure, leave_out_thinking
from tests.orchestrator import scripted_chat
from tests.orchestrator.given import Listener, World
from tests.orchestrator.scripted import Answer, Exchange, break_off, fail_with, reply_with, reply_with_calls
from tests.orchestrator.test_tools import SHOP
from tests.orchestrator.toolbox import Toolbox

PIECES = ("One ", "two ", "three ", "four.")
BREAKS = ("close", "reset", "garbage", "overloaded_error", "api_error")
CLAUDE = Fallback(provider="anthropic", model="claude-9")
GPT = Fallback(provider="openai", model="gpt", provider_key="k")
EVERY_REASON: Any = ("overloaded", "timeout", "error", "context_too_long", "refused")
OVERLOADED = fail_with(529, "overloaded_error", "secret words")


def answer_by_model(answers: dict[str, Answer]) -> Answer:
    """What each model says; a model that is not named says the rest of PIECES."""
    return lambda exchange: answers.get(exchange.body["model"], say_rest)(exchange)


async def say_rest(exchange: Exchange) -> None:
    """What of PIECES was not sent before, in the words of the API that is called."""
    asked = json.dumps(exchange.body["messages"])
    sent = max(count for count in range(4) if "".join(PIECES[:count]).rstrip() in asked)
    speak = scripted_chat.reply_with if "completions" in exchange.line else reply_with
    await speak(*PIECES[sent:])(exchange)


def swap(answer: Answer, then: Answer) -> Answer:
    calls = itertools.count()
    return lambda exchange: (then if next(calls) else answer)(exchange)


def get_models(world: World) -> list[str]:
    return [exchange.body["model"] for exchange in world.calls]


async def make_calls(
    world: World, answers: dict[str, Answer], *, fallbacks: tuple[Fallback, ...], **agent: Any
) -> list[Listener]:
    """One run for each model in `answers`, at once, all of them ended."""
    world.will(answer_by_model(answers))
    asked = [await world.ask(await world.agent(model, fallbacks=fallbacks, **agent)) for model in answers]
    await asyncio.gather(*(each.wait_until_ended() for each in asked))
    return asked


@pytest.mark.parametrize("fallback", [CLAUDE, GPT], ids=lambda each: each.provider)
async def test_the_next_model_completes_a_reply_at_any_delta(system: World, fallback: Fallback) -> None:
    cases = {
        f"{fallback.model}-{how}-{sent}": swap(break_off(*PIECES[:sent], how=how), OVERLOADED)
        for how, sent in itertools.product(BREAKS, range(4))
    }
    for caller in await make_calls(system, cases, fallbacks=(fallback,)):
        (completed,), (warned,) = caller.of(frames.Completed), caller.of(frames.WarningFrame)
        assert completed.message.content == caller.text == "".join(PIECES)
        assert (completed.model, warned.warning.code) == (fallback.model, "model_changed")
        run, stored = await system.run(caller), await system.events(caller)
        (reply,) = (each for each in stored if isinstance(each, events.ModelReplied))
        (change,) = (each for each in stored if isinstance(each, events.WarningRaised))
        assert (reply.provider, reply.model) == (fallback.provider, fallback.model)
        assert run.usage == reply.usage + change.usage
        assert "secret" not in change.message


async def test_a_failure_that_an_administrator_must_see_is_not_masked(system: World) -> None:
    cases = {
        "key": fail_with(401, "authentication_error"),
        "permission": fail_with(403, "permission_error"),
        "unknown": fail_with(404, "not_found_error", "model: unknown"),
        "parameter": fail_with(400, "invalid_request_error"),
        "long": fail_with(413, "request_too_large"),
        "refusing": reply_with("No", stop_reason="refusal"),
    }
    asked = await make_calls(system, cases, fallbacks=(CLAUDE,), compaction=None)
    codes = ["provider_error"] * 4 + ["context_too_long", "provider_refused"]
    assert [caller.of(frames.Failed)[0].code for caller in asked] == codes
    assert sorted(get_models(system)) == sorted(cases)


async def test_each_fall_back_is_for_its_reasons(system: World) -> None:
    cases = {
        "long": fail_with(413, "request_too_large"),
        "refusing": reply_with("One ", stop_reason="refusal"),
    }
    any_reason = replace(GPT, on=EVERY_REASON)
    asked = await make_calls(system, cases, fallbacks=(CLAUDE, any_reason), compaction=None)
    assert [caller.of(frames.Completed)[0].model for caller in asked] == ["gpt", "gpt"]
    assert [caller.text for caller in asked] == ["".join(PIECES)] * 2


async def test_the_last_error_names_the_models_that_failed(system: World) -> None:
    slow, failing = (replace(CLAUDE, model=model) for model in ("slow", "failing"))
    answers = {
        "all-fail": OVERLOADED,
        "slow": fail_with(504, "timeout_error", "secret words"),
        "failing": fail_with(500, "api_error", "secret words"),
    }
    system.will(answer_by_model(answers))
    failed = await (await system.ask(await system.agent("all-fail", fallbacks=(slow, failing)))).until(
        frames.Failed
    )
    assert (failed.code, failed.message) == (
        "provider_error",
        "The model provider failed. Before that: The agent's model is overloaded; fall-back 1 answers "
        "instead. Fall-back 1 did not answer in time; fall-back 2 answers instead.",
    )


async def test_an_agent_that_refuses_continued_replies_fails_mid_sentence(system: World) -> None:
    cases = {"mid": swap(break_off("One ", how="close"), OVERLOADED), "start": OVERLOADED}
    asked = await make_calls(system, cases, fallbacks=(CLAUDE,), on_interruption="fail")
    assert [len(caller.of(frames.Failed)) for caller in asked] == [1, 0]


async def think(exchange: Exchange) -> None:
    """A signed thought, and a call of a tool."""
    await exchange.begin()
    await exchange.block(type="thinking", thinking="", signature="")
    await exchange.piece(type="thinking_delta", thinking="Hm.")
    await exchange.piece(type="signature_delta", signature="c2ln")
    await exchange.text("Let me see. ")
    await exchange.tool("a", "find", "{}")
    await exchange.end("tool_use")


async def test_a_run_stays_with_its_new_model_and_the_next_begins_anew(system: World, box: Toolbox) -> None:
    """Between rounds the next model gets what was said and done, without the thinking of the first."""
    agent = await system.agent("first-model", fallbacks=(CLAUDE,), **SHOP)
    thinks = swap(think, OVERLOADED)
    calls = reply_with_calls(("b", "order", "{}"))
    system.will(answer_by_model({"first-model": thinks, "claude-9": swap(calls, reply_with("Done."))}))
    caller = await system.chat(agent)
    assert caller.text == "Let me see. Done."
    assert get_models(system) == ["first-model"] * 4 + ["claude-9"] * 2
    said = system.calls[4].body["messages"][1]["content"]
    assert [block["type"] for block in said] == ["text", "tool_use"]
    assert [each.model for each in (await system.run(caller)).rounds] == ["first-model", *["claude-9"] * 2]
    system.will(reply_with("Again."))
    again = await system.go_on(caller, "And?")
    assert (await again.until(frames.Completed)).model is None
    assert get_models(system) == ["first-model"]


async def test_a_worker_that_takes_over_goes_on_with_the_new_model(world: World) -> None:
    """The new model is of another provider, with its own key."""
    world.will(answer_by_model({}))
    request = world.request(await world.agent("dead", fallbacks=(GPT,)))
    stamp: dict[str, Any] = {"trace_id": request.trace_id, "at": request.requested_at}
    change = events.WarningRaised(
        code="model_changed",
        subject="gpt",
        message="m",
        fallback=1,
        usage=Usage(input_tokens=7),
        **stamp,
    )
    await world.store_open_run(request, change)
    async with world.worker():
        caller = await world.request_again(request)
        completed = await caller.until(frames.Completed)
    assert (completed.model, completed.usage.input_tokens) == ("gpt", 17)
    assert [("completions" in call.line, call.body["model"]) for call in world.calls] == [(True, "gpt")]
    assert [frame.warning.message for frame in caller.of(frames.WarningFrame)] == ["m"]
    started = [each for each in await world.events(caller) if isinstance(each, events.RunStarted)]
    assert started[-1].model == "gpt"


async def test_a_model_that_failed_three_times_is_skipped(system: World) -> None:
    agent = await system.agent("flaky", fallbacks=(CLAUDE,))
    system.will(answer_by_model({"flaky": OVERLOADED}))
    await asyncio.gather(*[system.chat(agent) for _ in range(3)])
    system.calls.clear()
    caller = await system.chat(agent)
    assert get_models(system) == ["claude-9"]
    (warned,) = caller.of(frames.WarningFrame)
    assert (
        warned.warning.message
        == "The agent's model failed several times just now; fall-back 1 answers instead."
    )


def test_three_failures_within_30_s_count_for_30_s() -> None:
    agent = AgentConfig(agent_id="a", account_id="c", version=1, name="n", model="m")
    failing = FailingModels()
    for at in (0.0, 20.0, 31.0):
        failing.record_failure(agent, at)
    assert not failing.is_failing(agent, 31.0)
    failing.record_failure(agent, 40.0)
    assert failing.is_failing(agent, 69.9)
    assert not failing.is_failing(agent, 70.1)
    assert not failing.is_failing(replace(agent, account_id="other"), 41.0)


def test_reasons() -> None:
    assert classify_failure(make_timeout("idle")) == "timeout"
    assert classify_failure(ModelFailure("provider_error", kind="no_key")) is None
    assert classify_failure(ModelFailure("output_invalid")) is None


def test_an_older_claude_model_does_not_think_after_calls_of_another() -> None:
    run = Run(trace_id="t", agent_id="a", user_message_id="m", user_text="", requested_at="")
    own, foreign = (
        replace(run, rounds=(Round(number=1, blocks=(), model=model),)) for model in ("m", "other")
    )
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 9}
    agent = AgentConfig(agent_id="a", account_id="c", version=1, name="n", model="m", parameters=thinking)
    assert leave_out_thinking(agent, own).parameters == thinking
    assert leave_out_thinking(agent, foreign).parameters == {"max_tokens": 9}


async def test_the_check_of_an_agent_checks_its_fall_backs(system: World, box: Toolbox) -> None:
    system.will(answer_by_model({"gpt": scripted_chat.fail_with(401, {"error": {"message": "no"}})}))
    agent = await system.agent("checked", fallbacks=(CLAUDE, GPT), **SHOP)
    checked = await check_agent(system.bus.rpc, system.account_id, agent, 1)
    assert [each.code for each in (checked.provider, *checked.fallbacks)] == ["ok", "ok", "authentication"]
    assert not checked.ok
