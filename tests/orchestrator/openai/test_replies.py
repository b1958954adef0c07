"""Replies put together from the streams of many servers of one API."""

import contextlib
import json
from typing import Any

import msgspec
import pytest

from agentchat.contracts.text_checks import is_line
from agentchat.contracts.values import Usage
from agentchat.orchestrator.models import ModelFailure
from agentchat.orchestrator.models.streamed_reply import MAX_BLOCKS
from tests.orchestrator.provider_caller import Caller
from tests.orchestrator.scripted import ScriptedProvider
from tests.orchestrator.scripted_chat import (
    DONE,
    calls,
    chunk,
    count_tokens,
    reply_with,
    send_chunks,
    text,
)


def function(name: str, arguments: Any = "{}") -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}}


async def test_events_may_be_cut_anywhere(provider: ScriptedProvider, caller: Caller) -> None:
    whole = b"".join(
        (text("ä€"), calls({"index": 0, "id": "c", **function("find")}), chunk(finish="stop"), DONE)
    )
    for at in range(1, len(whole), 7):
        provider.will(send_chunks(whole[:at], whole[at:]))
        reply = await caller.stream()
        assert "".join(caller.said) == "ä€"
        assert [block["type"] for block in reply.blocks] == ["text", "tool_use"]


async def test_parallel_calls_come_in_pieces_that_alternate(
    provider: ScriptedProvider, caller: Caller
) -> None:
    provider.will(
        send_chunks(
            calls(
                {"index": 0, "id": "a", **function("find", "")},
                {"index": 1, "id": "b", **function("look", "")},
            ),
            calls({"index": 1, "function": {"arguments": '{"y":'}}),
            calls({"index": 0, "function": {"arguments": '{"x":1}'}}),
            calls({"index": 1, "function": {"arguments": "2}"}}),
            chunk(finish="tool_calls"),
            DONE,
        )
    )
    reply = await caller.stream()
    assert reply.blocks == (
        {"type": "tool_use", "id": "a", "name": "find", "input": {"x": 1}},
        {"type": "tool_use", "id": "b", "name": "look", "input": {"y": 2}},
    )
    assert reply.stop_reason == "tool_use"


@pytest.mark.parametrize(
    ("pieces", "found"),
    [
        # Ollama: every call has index 0, and its id; Gemini: index 0 and no ids; some: no index at all.
        ([{"index": 0, "id": "a", **function("x")}, {"index": 0, "id": "b", **function("y")}], ["a", "b"]),
        ([{"index": 0, "id": "", **function("x")}, {"index": 0, "id": "", **function("y")}], ["", ""]),
        ([{"index": None, **function("x")}, function("y")], ["", ""]),
        ([{"id": "a", **function("x")}, {"id": "b", **function("y")}], ["a", "b"]),
        ([{"index": 0, "id": "a", **function("x")}, {"index": 1, "id": "a", **function("y")}], ["a", ""]),
        ([{"index": 1, "id": "a", **function("x")}, {"index": 7, "id": "b", **function("y")}], ["a", "b"]),
    ],
)
async def test_calls_without_ids_or_indexes_are_distinguished(
    provider: ScriptedProvider, caller: Caller, pieces: list[dict[str, Any]], found: list[str]
) -> None:
    for sent in ([calls(*pieces)], [calls(piece) for piece in pieces]):
        provider.will(send_chunks(*sent, chunk(finish="stop"), DONE))
        reply = await caller.stream()
        assert [(block["id"], block["name"]) for block in reply.blocks] == list(zip(found, "xy", strict=True))
        assert reply.stop_reason == "tool_use"


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"id": "a"},
        {"index": 0},
        {"index": 0, "id": "a", "function": {"name": "find"}},
        {"index": 0, "function": {"name": "find"}},
        {"index": 0, "id": "", "function": {"name": "find"}},
        {"function": {"name": "find"}},
        {"index": 0, "id": "made up for every piece"},
    ],
)
async def test_pieces_of_arguments_belong_to_the_last_started_call(
    provider: ScriptedProvider, caller: Caller, named: dict[str, Any]
) -> None:
    """Also where every piece says the id and the name again."""
    first = {"index": 0, "id": "a", **function("find", '{"x"')}
    rest = named | {"function": named.get("function", {}) | {"arguments": ":1}"}}
    provider.will(send_chunks(calls(first), calls(rest), chunk(finish="tool_calls"), DONE))
    assert [block["input"] for block in (await caller.stream()).blocks] == [{"x": 1}]


@pytest.mark.parametrize(
    ("arguments", "given", "problem"),
    [
        ("", {}, ""),
        (None, {}, ""),
        (" \n", {}, ""),
        ({"x": 1}, {"x": 1}, ""),
        ('{"x": ', {}, "not valid JSON"),
        ("[1]", {}, "not a JSON object"),
    ],
)
async def test_arguments_that_are_not_an_object_are_a_tool_error(
    provider: ScriptedProvider, caller: Caller, arguments: Any, given: dict[str, Any], problem: str
) -> None:
    provider.will(
        send_chunks(calls({"index": 0, "id": "a", **function("find", arguments)}), chunk(finish="stop"), DONE)
    )
    reply = await caller.stream()
    assert reply.blocks[0]["input"] == given
    assert problem in reply.bad_inputs.get(0, "")
    assert bool(reply.bad_inputs) == bool(problem)


async def test_what_a_provider_alone_knows_of_a_call_is_kept_for_it(
    provider: ScriptedProvider, caller: Caller
) -> None:
    """Gemini's signature, and ids that the log's alphabet does not have (Kimi)."""
    extra = {"google": {"thought_signature": "c2ln"}}
    provider.will(
        send_chunks(calls({"index": 0, "id": "functions.f:0", "extra_content": extra, **function("f")}), DONE)
    )
    (block,) = (await caller.stream()).blocks
    assert block["provider_data"] == {"openai": {"id": "functions.f:0", "extra_content": extra}}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_is_thinking_and_is_not_sent_on(
    provider: ScriptedProvider, caller: Caller, field: str
) -> None:
    provider.will(
        send_chunks(chunk({field: "Let me "}), chunk({field: "see."}), text("4"), chunk(finish="stop"), DONE)
    )
    thinking, said = (await caller.stream()).blocks
    assert thinking == {
        "type": "thinking",
        "thinking": "Let me see.",
        "signature": "",
        "provider_data": {"openai": {"field": field}},
    }
    assert said["text"] == "".join(caller.said) == "4"


async def test_reasoning_that_is_sent_twice_is_kept_once(provider: ScriptedProvider, caller: Caller) -> None:
    both = chunk({"reasoning_content": "Hm.", "reasoning": "Hm."})
    provider.will(send_chunks(both, both, text("Yes."), chunk(finish="stop"), DONE))
    assert (await caller.stream()).blocks[0]["thinking"] == "Hm.Hm."


async def test_content_may_be_parts(provider: ScriptedProvider, caller: Caller) -> None:
    """As Mistral's reasoning models send it."""
    thought = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]
    said = [{"type": "text", "text": "4"}, {"type": "reference", "reference_ids": [1]}]
    provider.will(
        send_chunks(chunk({"content": thought}), chunk({"content": said}), chunk(finish="stop"), DONE)
    )
    reply = await caller.stream()
    assert [block.get("thinking", block.get("text")) for block in reply.blocks] == ["Hm.", "4"]
    assert caller.said == ["4"]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("stop", "end_turn"),
        ("tool_calls", "end_turn"),
        ("length", "max_tokens"),
        ("model_length", "max_tokens"),
        ("content_filter", "refusal"),
        ("something_new", "something_new"),
    ],
)
async def test_finish_reasons_become_ours_and_the_raw_word_stays(
    provider: ScriptedProvider, caller: Caller, raw: str, reason: str
) -> None:
    provider.will(reply_with("ok", finish=raw))
    reply = await caller.stream()
    assert (reply.stop_reason, reply.raw_stop_reason) == (reason, raw)


async def test_a_refusal_is_one_whatever_the_finish_reason(
    provider: ScriptedProvider, caller: Caller
) -> None:
    provider.will(send_chunks(chunk({"refusal": "I can't help with that."}), chunk(finish="stop"), DONE))
    assert (await caller.stream()).stop_reason == "refusal"
    assert caller.said == []


@pytest.mark.parametrize("arguments", ["", None, " ", '{"x": "ab'])
@pytest.mark.parametrize("finish", ["length", "model_length"])
async def test_length_in_the_middle_of_a_call_is_no_call_that_could_run(
    provider: ScriptedProvider, caller: Caller, arguments: str | None, finish: str
) -> None:
    cut = calls({"index": 1, "id": "b", **function("f", arguments)})
    provider.will(
        send_chunks(
            calls({"index": 0, "id": "a", **function("f")}), cut, chunk(finish=finish), count_tokens(), DONE
        )
    )
    reply = await caller.stream()
    assert reply.stop_reason == "max_tokens"
    assert {place: "limit" in problem for place, problem in reply.bad_inputs.items()} == {1: True}


@pytest.mark.parametrize(
    "end", [[DONE], [count_tokens()], [chunk(finish="stop")], [chunk(finish="stop"), count_tokens()]]
)
async def test_stream_without_finish_reason_may_be_complete(
    provider: ScriptedProvider, caller: Caller, end: list[bytes]
) -> None:
    provider.will(send_chunks(text("all"), *end))
    reply = await caller.stream()
    assert reply.stop_reason == "end_turn"
    assert len(provider.calls) == 1


@pytest.mark.parametrize(
    "behind",
    [
        [text(" b")],
        [b"data: {"],
        [chunk(choices=[])],
        [calls({"index": 0, "id": "c", **function("f", "")})],
        [calls({"index": 0, "id": "c", **function("f", "")}), count_tokens()],
    ],
)
async def test_usage_in_the_middle_of_a_stream_is_no_end_of_it(
    provider: ScriptedProvider, caller: Caller, behind: list[bytes]
) -> None:
    provider.will(send_chunks(text("a"), count_tokens(), *behind))
    assert (await caller.failure()).kind == "broken_stream"


@pytest.mark.parametrize(
    "piece",
    [
        {"function": {"name": "f", "arguments": {"\ud800": "\x00"}}},
        {"function": {"name": "\ud800\x00", "arguments": "{}"}},
        {"id": "\ud800\x00\x1b" + "x" * 10_000, **function("f")},
        {"extra_content": {"\ud800": "\x00"}, **function("f")},
    ],
)
async def test_a_call_that_cannot_be_stored_is_repaired(
    provider: ScriptedProvider, caller: Caller, piece: dict[str, Any]
) -> None:
    data = {"choices": [{"delta": {"tool_calls": [piece]}, "finish_reason": "\x1b" + "y" * 10_000}]}
    provider.will(send_chunks(b"data: %b\n\n" % json.dumps(data).encode(), DONE))
    reply = await caller.stream()
    stored = msgspec.json.encode(reply.blocks)
    assert b"\\u0000" not in stored
    assert len(stored) < 1000
    assert is_line(reply.raw_stop_reason)
    assert len(reply.raw_stop_reason) <= 64


async def test_calls_without_an_end_are_a_failure(provider: ScriptedProvider, caller: Caller) -> None:
    many = [{"index": index, **function("f")} for index in range(MAX_BLOCKS + 1)]
    provider.will(send_chunks(calls(*many), chunk(finish="stop"), DONE))
    assert (await caller.failure()).kind == "broken_stream"


@pytest.mark.parametrize("depth", [400, 900, 5000])
async def test_arguments_nested_without_end_are_a_failure_or_none(
    provider: ScriptedProvider, caller: Caller, depth: int
) -> None:
    nested = calls(function("f", {"x": "HERE"})).replace(b'"HERE"', b"[" * depth + b"]" * depth)
    provider.will(send_chunks(nested, chunk(finish="stop"), DONE))
    with contextlib.suppress(ModelFailure):
        assert (await caller.stream()).stop_reason == "tool_use"


@pytest.mark.parametrize(
    ("usage", "found"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}, (100, 7, 0, 0)),
        (
            {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 64}},
            (36, 7, 64, 0),
        ),
        # OpenRouter, DeepSeek, Moonshot; xAI, which leaves reasoning out of completion_tokens; nulls.
        (
            {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30}},
            (10, 0, 60, 30),
        ),
        ({"prompt_tokens": 100, "completion_tokens": 7, "prompt_cache_hit_tokens": 64}, (36, 7, 64, 0)),
        ({"prompt_tokens": 100, "completion_tokens": 7, "cached_tokens": 64}, (36, 7, 64, 0)),
        ({"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 150}, (100, 50, 0, 0)),
        ({"prompt_tokens": 100, "completion_tokens": None, "prompt_tokens_details": None}, (100, 0, 0, 0)),
        # Counts that no model has would make the sums of all accounts overflow, or lower them.
        ({"prompt_tokens": 2**62, "completion_tokens": -(10**9)}, (100_000_000, 0, 0, 0)),
    ],
)
async def test_usage_includes_the_cached_which_ours_counts_apart(
    provider: ScriptedProvider, caller: Caller, usage: dict[str, Any], found: tuple[int, int, int, int]
) -> None:
    told = [
        count_tokens(**usage),
        chunk(finish="stop", x_groq={"usage": usage}),
        chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "stop", "usage": usage}]),
    ]
    for each in told:
        provider.will(send_chunks(text("a"), chunk(finish="stop"), each, DONE))
        await caller.stream()
        fresh, output, read, written = found
        assert caller.meter.usage == Usage(
            input_tokens=fresh, output_tokens=output, cache_read_tokens=read, cache_creation_tokens=written
        )


async def test_usage_that_grows_is_counted_once(provider: ScriptedProvider, caller: Caller) -> None:
    so_far = [
        chunk({"content": "a"}, usage={"prompt_tokens": 10, "completion_tokens": count})
        for count in (1, 2, 3)
    ]
    provider.will(send_chunks(*so_far, chunk(finish="stop"), DONE))
    await caller.stream()
    assert caller.meter.usage == Usage(input_tokens=10, output_tokens=3)
