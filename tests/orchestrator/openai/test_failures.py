"""What goes wrong with a server of this API, told apart, and tried again or not."""

from typing import Any

import pytest

from agentchat.contracts.values import Usage
from tests.orchestrator.provider_caller import Caller, user
from tests.orchestrator.scripted import Exchange, ScriptedProvider
from tests.orchestrator.scripted_chat import (
    DONE,
    break_off,
    calls,
    chunk,
    count_tokens,
    fail_with,
    reply_with,
    send_chunks,
    text,
)


def error(message: str = "no", kind: str | None = None, code: Any = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


QUOTA = error("You exceeded your current quota.", "insufficient_quota", "insufficient_quota")
LONG = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens."


@pytest.mark.parametrize(
    ("status", "answer", "code", "tries"),
    [
        (401, error("Incorrect API key", "invalid_request_error", "invalid_api_key"), "provider_error", 1),
        (404, error("The model does not exist", None, "model_not_found"), "provider_error", 1),
        (429, QUOTA, "provider_error", 1),
        (429, error("quota", "exceeded_current_quota_error"), "provider_error", 1),
        (402, error("Insufficient Balance", "unknown_error", "invalid_request_error"), "provider_error", 1),
        (429, error("Rate limit reached", "requests", "rate_limit_exceeded"), "provider_overloaded", 3),
        # Gemini says this of a minute's limit too.
        (429, [error("You exceeded your current quota", None, 429)], "provider_overloaded", 3),
        (500, error("oops", "server_error"), "provider_error", 3),
        (503, error("busy", "service_unavailable"), "provider_overloaded", 3),
        (504, error("late"), "provider_timeout", 3),
        (400, error(LONG, "invalid_request_error", "context_length_exceeded"), "context_too_long", 1),
        (
            400,
            {"object": "error", "message": LONG, "type": "BadRequestError", "code": 400},
            "context_too_long",
            1,
        ),
        (400, error("too big", "exceed_context_size_error", 400), "context_too_long", 1),
        (422, {"detail": "the context window is full"}, "context_too_long", 1),
        (413, error("large"), "context_too_long", 1),
        (400, error("The response was filtered", None, "content_filter"), "provider_refused", 1),
        (400, error("Unknown parameter", "invalid_request_error", "unknown_parameter"), "provider_error", 1),
        (400, error("bad call", "invalid_request_error", "tool_use_failed"), "provider_error", 3),
        (400, "not even an object", "provider_error", 1),
    ],
)
async def test_errors_before_a_stream_are_classified_for_retries(
    provider: ScriptedProvider, caller: Caller, status: int, answer: Any, code: str, tries: int
) -> None:
    provider.will(fail_with(status, answer, retry_after_ms="1"))
    failure = await caller.failure()
    assert failure.code == code
    assert failure.transient == (tries > 1)
    assert len(provider.calls) == tries


@pytest.mark.parametrize(
    ("status", "answer", "words"),
    [
        (429, QUOTA, "out of credit"),
        (404, error("gone", None, "model_not_found"), "does not know the agent's model"),
        (400, error("Model Not Exist", "invalid_request_error"), "does not know the agent's model"),
        (
            400,
            {"object": "error", "message": "Invalid model: x", "code": "1500"},
            "does not know the agent's model",
        ),
        (401, error("bad key"), "key"),
    ],
)
async def test_provider_errors_name_what_to_fix_without_its_words(
    provider: ScriptedProvider, caller: Caller, status: int, answer: dict[str, Any], words: str
) -> None:
    provider.will(fail_with(status, answer))
    failure = await caller.failure()
    said = answer.get("error", answer)["message"]
    assert words in str(failure)
    assert said not in str(failure)
    assert failure.provider_message == said


@pytest.mark.parametrize(
    ("told", "code", "transient"),
    [
        (error("oops", "server_error"), "provider_error", True),
        (error("oops", None, 502), "provider_error", True),
        (error("busy", None, 429), "provider_overloaded", True),
        (error("busy", "overloaded"), "provider_overloaded", True),
        (error("UNAVAILABLE", None, "unavailable"), "provider_overloaded", True),
        (error("late", "timeout"), "provider_timeout", True),
        (QUOTA, "provider_error", False),
        (error("wrong", "invalid_request_error"), "provider_error", False),
        (error(LONG, None, "context_length_exceeded"), "context_too_long", False),
        (error(LONG, "BadRequestError", 400), "context_too_long", False),
        ({"error": "a sentence"}, "provider_error", True),
        (
            {"object": "error", "message": "oops", "type": "InternalServerError", "code": 500},
            "provider_error",
            True,
        ),
    ],
)
async def test_errors_in_a_stream_are_classified(
    provider: ScriptedProvider, caller: Caller, told: dict[str, Any], code: str, transient: bool
) -> None:
    async def answer(exchange: Exchange) -> None:
        """The error comes when the text has gone out."""
        await exchange.open_stream()
        await exchange.write(text("a"))
        await caller.began.wait()
        await exchange.write(chunk(**{"choices": None, "object": "chat.completion.chunk", **told}))
        await exchange.close()

    provider.will(answer)
    failure = await caller.failure()
    assert (failure.code, failure.transient) == (code, transient)
    assert len(provider.calls) == 1


@pytest.mark.parametrize(
    ("finish", "code"), [("error", "provider_error"), ("insufficient_system_resource", "provider_overloaded")]
)
async def test_a_finish_reason_that_gives_up_is_a_failure(
    provider: ScriptedProvider, caller: Caller, finish: str, code: str
) -> None:
    provider.will(reply_with("ok", finish=finish))
    failure = await caller.failure()
    assert (failure.code, failure.transient) == (code, True)


async def test_a_stream_cut_at_any_event_is_no_reply(provider: ScriptedProvider, caller: Caller) -> None:
    """Up to the event that says why it ends: after that one, it is whole."""
    call = calls({"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}})
    whole = [
        chunk({"role": "assistant", "content": ""}),
        text("a"),
        call,
        chunk(finish="tool_calls"),
        count_tokens(),
        DONE,
    ]
    for count in range(2, len(whole) + 1):
        provider.will(send_chunks(*whole[:count]))
        if count < 4:
            assert (await caller.failure()).kind == "broken_stream"
        else:
            assert len((await caller.stream()).blocks) == 2


@pytest.mark.parametrize("how", ["close", "reset", "garbage"])
async def test_broken_stream_is_charged_by_its_length(
    provider: ScriptedProvider, caller: Caller, how: str
) -> None:
    provider.will(break_off("It has " * 20, how=how))
    await caller.failure(system="s" * 80, messages=[user("u" * 320)])
    assert caller.meter.usage == Usage(input_tokens=100, output_tokens=35)
