"""Servers of the Chat Completions API that get types wrong: what public bug reports show."""

import json
from typing import Any

import pytest

from agentchat.contracts.values import ToolSpec, Usage
from tests.orchestrator.provider_caller import Caller
from tests.orchestrator.scripted import ScriptedProvider, send_page
from tests.orchestrator.scripted_chat import DONE, calls, chunk, count_tokens, send_chunks, text

END = chunk(finish="stop") + DONE


def build_chunk(delta: str) -> bytes:
    """A chunk whose delta is this JSON text."""
    return b'data: {"id":"c","choices":[{"index":0,"delta":' + delta.encode() + b"}]}\n\n"


async def stream_text(provider: ScriptedProvider, caller: Caller, *data: bytes) -> str:
    """Stream these chunks, and return the text that was passed on, which is also the reply's."""
    provider.will(send_chunks(*data, END))
    reply = await caller.stream()
    said = "".join(caller.said)
    assert said == "".join(block["text"] for block in reply.blocks if block["type"] == "text")
    return said


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (['"It costs $"', "0.005", '" ["', "1", '"]."'], "It costs $0.005 [1]."),
        (['"a"', "true", '" "', "false", "null", '"b"'], "atrue falseb"),
        (
            ["1.10", "0", "1e5", "12345678901234567890123", "-2.50"],
            "1.1001e512345678901234567890123-2.50",
        ),
        ([r'"\ud83d"', r'"\ude00"'], "😀"),
        ([r'"a\ud83d"', '""', r'"\ude00b"'], "a😀b"),
        ([r'"\ud83d\ude00\ud83d"', r'"\ude01"'], "😀😁"),
        ([r'"\ud83d"', '"x"', r'"\ude00"'], "�x�"),
        ([r'"x\ud83d"'], "x�"),
        (["null", "[]", '[{"type":"text","text":7}]', '["a",8]', '{"text":"b"}'], "7a8b"),
    ],
)
async def test_any_scalar_is_text(
    provider: ScriptedProvider, caller: Caller, pieces: list[str], expected: str
) -> None:
    data = [build_chunk(f'{{"content":{piece}}}') for piece in pieces]
    assert await stream_text(provider, caller, *data) == expected


async def test_surrogates_of_cesu_8_are_joined(provider: ScriptedProvider, caller: Caller) -> None:
    data = [
        b'data: {"choices":[{"delta":{"content":"%b"}}]}\n\n' % half
        for half in (b"\xed\xa0\xbd", b"\xed\xb8\x80")
    ]
    assert await stream_text(provider, caller, *data) == "😀"


async def test_surrogates_in_thinking_and_arguments_are_joined(
    provider: ScriptedProvider, caller: Caller
) -> None:
    provider.will(
        send_chunks(
            build_chunk(r'{"reasoning_content":"\ud83d"}'),
            build_chunk(r'{"reasoning_content":"\ude00"}'),
            build_chunk(
                r'{"tool_calls":[{"index":0,"id":"a","function":{"name":"echo","arguments":"{\"q\":\"\ud83d"}}]}'
            ),
            build_chunk(r'{"tool_calls":[{"index":0,"function":{"arguments":"\ude00\"}"}}]}'),
            chunk(finish="tool_calls"),
            DONE,
        )
    )
    thinking, call = (await caller.stream()).blocks
    assert (thinking["thinking"], call["input"]) == ("😀", {"q": "😀"})


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + text("Hi"),
        b"data:\n\n" + text("Hi") + b"data: \n\n",
        b": wait\r\r" + text("Hi").replace(b"\n", b"\r"),
        b"event: ping\ndata: {}\n\n" + text("Hi"),
        chunk(choices=[{"index": 0, "message": {"role": "assistant", "content": "Hi"}}]),
        chunk(choices=[{"index": "0", "text": "Hi"}]),
        chunk(choices={"delta": {"content": "Hi"}}),
        text("Hi") + chunk(choices=[{"message": {"content": "Hi"}, "delta": {}}]),
        chunk({"content": "Hi"}, id=5, model=None, created="x", usage=[], x_groq="", object=None),
        chunk({"content": "Hi", "refusal": None, "tool_calls": {}, "reasoning": {"x": 1}, "role": 7}),
        chunk({"content": "Hi"}, finish=None) + chunk(choices=None) + chunk(choices=["x"], usage="none"),
    ],
)
async def test_what_is_not_needed_may_be_anything(
    provider: ScriptedProvider, caller: Caller, data: bytes
) -> None:
    assert await stream_text(provider, caller, data) == "Hi"


@pytest.mark.parametrize(
    "reported",
    [
        {"prompt_tokens": 10.0, "completion_tokens": "5", "prompt_tokens_details": []},
        {"prompt_tokens": 10, "completion_tokens": 5.0, "prompt_tokens_details": {"cached_tokens": None}},
        {"prompt_tokens": "10", "completion_tokens": 5, "total_tokens": [], "prompt_tokens_details": "x"},
    ],
)
async def test_counts_may_have_any_type(
    provider: ScriptedProvider, caller: Caller, reported: dict[str, Any]
) -> None:
    provider.will(send_chunks(text("Hi"), chunk(finish="stop"), count_tokens(**reported), DONE))
    await caller.stream()
    assert caller.meter.usage == Usage(input_tokens=10, output_tokens=5)


@pytest.mark.parametrize(
    "data",
    [
        END,
        chunk({"content": ""}) + END,
        chunk({"content": None, "role": "assistant"}) + END,
        chunk({"reasoning_content": "Hm."}) + END,
    ],
)
async def test_a_reply_without_anything_is_an_error(
    provider: ScriptedProvider, caller: Caller, data: bytes
) -> None:
    provider.will(send_chunks(data))
    failure = await caller.failure()
    assert (failure.code, failure.kind) == ("provider_error", "empty_reply")
    assert len(provider.calls) == 3


async def test_an_empty_continuation_is_no_error(provider: ScriptedProvider, caller: Caller) -> None:
    provider.will(send_chunks(END))
    assert (await caller.stream(already_sent="All is said.")).blocks == ()


ECHO = ToolSpec(name="echo", server="s", tool="echo", description="", input_schema={})
NOW = ToolSpec(name="now", server="s", tool="now", description="", input_schema={})


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([("ec", None), ("ho", None), (None, "{}")], [("echo", {})]),
        ([("ec", ""), ("ho", ""), (None, '{"q":1}')], [("echo", {"q": 1})]),
        ([("e", None), ("echo", None), (None, "{}")], [("echo", {})]),
        ([("echo", None), ("echo", '{"q":'), ("echo", "1}")], [("echo", {"q": 1})]),
        ([("ec", None), ("ho", '{"q":1}')], [("echo", {"q": 1})]),
        ([("now", None), ("echo", None)], [("now", {}), ("echo", {})]),
        ([("now", "{}"), ("echo", "{}")], [("now", {}), ("echo", {})]),
        ([("echo", '{"q":1}'), ("echo", '{"q":2}')], [("echo", {"q": 1}), ("echo", {"q": 2})]),
    ],
)
async def test_a_name_may_come_in_pieces(
    provider: ScriptedProvider, caller: Caller, pieces: list[Any], expected: list[Any]
) -> None:
    data = [calls({"index": 0, "function": {"name": name, "arguments": given}}) for name, given in pieces]
    provider.will(send_chunks(*data, chunk(finish="tool_calls"), DONE))
    reply = await caller.stream(tools=(ECHO, NOW))
    assert [(block["name"], block["input"]) for block in reply.blocks] == expected


@pytest.mark.parametrize("index", ["0", 0.0, None])
async def test_an_index_may_have_any_type(provider: ScriptedProvider, caller: Caller, index: Any) -> None:
    pieces = [{"index": index, "id": 7, "function": {"name": "echo", "arguments": '{"q":'}}]
    pieces += [{"index": index, "function": {"arguments": "1}"}}]
    provider.will(send_chunks(*map(calls, pieces), chunk(finish="tool_calls"), DONE))
    (block,) = (await caller.stream()).blocks
    assert (block["id"], block["input"]) == ("7", {"q": 1})


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e999", '[{"x": NaN}]'])
@pytest.mark.parametrize("whole", [True, False])
async def test_numbers_beyond_json_are_invalid_input(
    provider: ScriptedProvider, caller: Caller, number: str, whole: bool
) -> None:
    given = f'{{"q": {number}}}'
    arguments = given if whole else json.dumps(given)
    provider.will(
        send_chunks(
            build_chunk(
                f'{{"tool_calls":[{{"index":0,"id":"a","function":{{"name":"echo","arguments":{arguments}}}}}]}}'
            ),
            chunk(finish="tool_calls"),
            DONE,
        )
    )
    reply = await caller.stream()
    assert reply.bad_inputs == {0: "The input is not valid JSON."}
    assert reply.blocks[0]["input"] == {}


async def test_numbers_of_an_object_are_kept(provider: ScriptedProvider, caller: Caller) -> None:
    provider.will(
        send_chunks(
            build_chunk(
                '{"tool_calls":[{"id":"a","function":{"name":"echo","arguments":{"x":1.5,"y":[2e3,{"z":null}]}}}]}'
            ),
            chunk(finish="tool_calls"),
            DONE,
        )
    )
    assert (await caller.stream()).blocks[0]["input"] == {"x": 1.5, "y": [2000.0, {"z": None}]}


async def test_a_page_is_no_reply(provider: ScriptedProvider, caller: Caller) -> None:
    provider.will(send_page("<html>Sign in</html>"))
    assert (await caller.failure()).kind == "broken_stream"
