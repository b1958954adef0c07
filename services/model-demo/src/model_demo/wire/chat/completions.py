"""A reply as the wire has it: the JSON completion, and the chunks of a stream."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from model_demo import pieces
from model_demo.wire.protocol import Events, Head
from model_demo.wire.replies import Call, Part, Reply, Say, StopReason, Thought
from model_demo.wire.tokens import of_part

CREATED = 1_793_491_200
"""`created` of every completion and model, in Unix seconds: a reply follows from its request alone."""

_FINISH: dict[StopReason, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}

_encode = msgspec.json.Encoder().encode
_DONE = b"data: [DONE]\n\n"


def message(head: Head, reply: Reply) -> bytes:
    """The body of an answer that is not streamed."""
    said = "".join(part.text for part in reply.parts if isinstance(part, Say))
    thought = "".join(part.text for part in reply.parts if isinstance(part, Thought))
    calls = [_call(part) for part in reply.parts if isinstance(part, Call)]
    content: dict[str, Any] = {"role": "assistant", "content": said or None, "refusal": None}
    if thought:
        content["reasoning_content"] = thought
    if calls:
        content["tool_calls"] = calls
    choice = {"index": 0, "message": content, "logprobs": None, "finish_reason": _FINISH[reply.stop_reason]}
    return _encode(
        {**_about(head, "chat.completion"), "choices": [choice], "usage": _usage(head, reply.parts)}
    )


def events(head: Head, reply: Reply) -> Events:
    """The chunks of an answer that is streamed: the role, what is said and called, the end, the usage."""
    begin = _encode(_about(head, "chat.completion.chunk"))[:-1]
    before = b"data: " + begin + b',"choices":[{"index":0,"delta":'
    usage = b',"usage":null' if head.stream_usage else b""
    after = b',"logprobs":null,"finish_reason":null}]' + usage + b"}\n\n"
    first = before + b'{"role":"assistant","content":"","refusal":null}' + after
    finish = _encode(_FINISH[reply.stop_reason])
    end = before + b'{},"logprobs":null,"finish_reason":' + finish + b"}]" + usage + b"}\n\n"
    if head.stream_usage:
        end += b"data: " + begin + b',"choices":[],"usage":' + _encode(_usage(head, reply.parts)) + b"}\n\n"
    return Events(first, tuple(before + delta + after for delta in _deltas(reply.parts)), end + _DONE)


def _deltas(parts: Sequence[Part]) -> Iterator[bytes]:
    calls = 0
    for part in parts:
        match part:
            case Thought(text=text):
                for piece in pieces.few_words(text):
                    yield b'{"reasoning_content":' + _encode(piece) + b"}"
            case Say():
                for piece in part.pieces:
                    yield b'{"content":' + _encode(piece) + b"}"
            case Call(input_json=text):
                yield _encode({"tool_calls": [{"index": calls, **_call(part, arguments="")}]})
                for piece in pieces.of_json(text):
                    yield _encode({"tool_calls": [{"index": calls, "function": {"arguments": piece}}]})
                calls += 1


def _call(call: Call, arguments: str | None = None) -> dict[str, Any]:
    called = {"name": call.name, "arguments": call.input_json if arguments is None else arguments}
    return {"id": "call_" + call.id.removeprefix("toolu_"), "type": "function", "function": called}


def _about(head: Head, kind: str) -> dict[str, Any]:
    name = "chatcmpl-" + head.id.removeprefix("msg_")
    return {"id": name, "object": kind, "created": CREATED, "model": head.model}


def _usage(head: Head, parts: Sequence[Part]) -> dict[str, Any]:
    """`prompt_tokens` includes what was cached, unlike the Messages API's `input_tokens`."""
    written = sum(map(of_part, parts))
    return {
        "prompt_tokens": head.usage.total,
        "completion_tokens": written,
        "total_tokens": head.usage.total + written,
        "prompt_tokens_details": {"cached_tokens": head.usage.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": sum(of_part(part) for part in parts if isinstance(part, Thought)),
            "audio_tokens": 0,
        },
    }
