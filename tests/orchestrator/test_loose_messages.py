"""Servers of the Messages API that get types wrong: what public bug reports show."""

import json
from typing import Any

import pytest

from agentchat.contracts.values import Usage
from tests.orchestrator.provider_caller import Caller
from tests.orchestrator.scripted import Answer, ScriptedProvider, events


def send(*data: dict[str, Any] | str) -> Answer:
    """A stream of these events, as JSON or as JSON text."""
    lines = [each if isinstance(each, str) else json.dumps(each) for each in data]
    return events("".join(f"data: {line}\n\n" for line in lines).encode())


def piece(value: str, kind: str = "text_delta", field: str = "text", index: str = "0") -> str:
    return f'{{"type":"content_block_delta","index":{index},"delta":{{"type":"{kind}","{field}":{value}}}}}'


BEGIN: dict[str, Any] = {
    "type": "message_start",
    "message": {"id": "m", "model": "m", "usage": {"input_tokens": 3}},
}
TEXT: dict[str, Any] = {
    "type": "content_block_start",
    "index": 0,
    "content_block": {"type": "text", "text": ""},
}
STOP: dict[str, Any] = {"type": "content_block_stop", "index": 0}
END: dict[str, Any] = {
    "type": "message_delta",
    "delta": {"stop_reason": "end_turn"},
    "usage": {"output_tokens": 2},
}
LAST = {"type": "message_stop"}


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (['"It costs $"', "0.005", '" ["', "1", '"]."'], "It costs $0.005 [1]."),
        (['"a"', "true", "null", "1.10"], "atrue1.10"),
        ([r'"\ud83d"', r'"\ude00"'], "😀"),
        ([r'"\ud83d"', '"x"'], "�x"),
        ([r'"x\ud83d"'], "x�"),
    ],
)
async def test_any_scalar_is_text(
    provider: ScriptedProvider, caller: Caller, pieces: list[str], expected: str
) -> None:
    provider.will(send(BEGIN, TEXT, *map(piece, pieces), STOP, END, LAST))
    reply = await caller.stream()
    assert "".join(caller.said) == reply.blocks[0]["text"] == expected


async def test_surrogates_in_thinking_and_arguments_are_joined(
    provider: ScriptedProvider, caller: Caller
) -> None:
    thinking = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "thinking", "thinking": ""},
    }
    block = {"type": "tool_use", "id": "a", "name": "echo", "input": {}}
    provider.will(
        send(
            BEGIN,
            thinking,
            *(piece(half, "thinking_delta", "thinking") for half in (r'"\ud83d"', r'"\ude00"')),
            {"type": "content_block_start", "index": 1, "content_block": block},
            *(
                piece(half, "input_json_delta", "partial_json", "1")
                for half in (r'"{\"q\":\"\ud83d"', r'"\ude00\"}"')
            ),
            END,
            LAST,
        )
    )
    first, call = (await caller.stream()).blocks
    assert (first["thinking"], call["input"]) == ("😀", {"q": "😀"})


@pytest.mark.parametrize("index", [0, "0", None, 0.0])
async def test_what_is_not_needed_may_be_anything(
    provider: ScriptedProvider, caller: Caller, index: Any
) -> None:
    begin = {"type": "message_start", "message": {"id": 5, "model": None, "usage": {"input_tokens": 3.0}}}
    start = {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": None}}
    end = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": "2", "x": []},
    }
    data = "".join(
        f"data: {line}\n\n"
        for line in (
            json.dumps(begin),
            "",
            json.dumps(start),
            piece('"Hi"', index=json.dumps(index)),
            piece("null"),
            json.dumps({"type": "content_block_stop", "index": index}),
            json.dumps(end),
        )
    )
    provider.will(
        events(f"\ufeff{data}event: ping\ndata: {{}}\n\nevent: message_stop\ndata: {{}}\n\n".encode())
    )
    reply = await caller.stream()
    assert reply.blocks == ({"type": "text", "text": "Hi"},)
    assert caller.meter.usage == Usage(input_tokens=3, output_tokens=2)


@pytest.mark.parametrize("content", [[], [TEXT, STOP]])
async def test_a_reply_without_anything_is_an_error(
    provider: ScriptedProvider, caller: Caller, content: list[dict[str, Any]]
) -> None:
    provider.will(send(BEGIN, *content, END, LAST))
    failure = await caller.failure()
    assert (failure.code, failure.kind) == ("provider_error", "empty_reply")


@pytest.mark.parametrize("number", ["NaN", "1e400"])
async def test_numbers_beyond_json_are_invalid_input(
    provider: ScriptedProvider, caller: Caller, number: str
) -> None:
    block = {"type": "tool_use", "id": "a", "name": "echo", "input": {}}
    given = piece(json.dumps(f'{{"q": {number}}}'), "input_json_delta", "partial_json")
    start = {"type": "content_block_start", "index": 0, "content_block": block}
    for data in ((start, given), (json.dumps(start).replace('"input": {}', f'"input": {{"q": {number}}}'),)):
        provider.will(send(BEGIN, *data, END, LAST))
        assert (await caller.stream()).bad_inputs == {0: "The input is not valid JSON."}
