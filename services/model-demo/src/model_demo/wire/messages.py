"""A reply as the wire has it: the JSON message, and the events of a stream."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from model_demo import pieces
from model_demo.wire.protocol import Events, Head
from model_demo.wire.replies import Call, Part, Reply, Say, Thought
from model_demo.wire.tokens import InputUsage, of_part

_encode = msgspec.json.Encoder().encode
PING = b'event: ping\ndata: {"type": "ping"}\n\n'


def message(head: Head, reply: Reply) -> bytes:
    """The body of an answer that is not streamed."""
    return _encode(
        _message(
            head,
            [_block(part) for part in reply.parts],
            _usage(head.usage, reply.parts),
            reply,
        )
    )


def events(head: Head, reply: Reply) -> Events:
    """The events of an answer that is streamed, a ping after message_start among them."""
    started = _message(head, [], _usage(head.usage, ()), None)
    first = event("message_start", {"type": "message_start", "message": started}) + PING
    deltas: list[bytes] = []
    between = b""
    for index, part in enumerate(reply.parts):
        between += event(
            "content_block_start",
            {"type": "content_block_start", "index": index, "content_block": _empty(part)},
        )
        for delta in _deltas(part, index):
            deltas.append(between + delta)
            between = b""
        between += event("content_block_stop", {"type": "content_block_stop", "index": index})
    return Events(first, tuple(deltas), between + _end(head, reply))


def event(name: str, data: dict[str, Any]) -> bytes:
    """One server-sent event with its name."""
    return b"event: " + name.encode() + b"\ndata: " + _encode(data) + b"\n\n"


def _end(head: Head, reply: Reply) -> bytes:
    delta = {
        "stop_reason": reply.stop_reason,
        "stop_sequence": reply.stop_sequence,
        "stop_details": _stop_details(reply),
    }
    usage = _usage(head.usage, reply.parts)
    counted = {name: usage[name] for name in _CUMULATIVE if name in usage}
    return event("message_delta", {"type": "message_delta", "delta": delta, "usage": counted}) + event(
        "message_stop", {"type": "message_stop"}
    )


_CUMULATIVE = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
    "output_tokens_details",
)


def _message(head: Head, content: list[Any], usage: dict[str, Any], reply: Reply | None) -> dict[str, Any]:
    return {
        "id": head.id,
        "type": "message",
        "role": "assistant",
        "model": head.model,
        "content": content,
        "stop_reason": reply.stop_reason if reply else None,
        "stop_sequence": reply.stop_sequence if reply else None,
        "stop_details": _stop_details(reply) if reply else None,
        "usage": usage,
    }


def _stop_details(reply: Reply) -> dict[str, Any] | None:
    if reply.stop_reason != "refusal":
        return None
    return {"type": "refusal", "category": None, "explanation": reply.refusal}


def _usage(spent: InputUsage, parts: Sequence[Part]) -> dict[str, Any]:
    usage: dict[str, Any] = {
        "input_tokens": spent.fresh,
        "cache_creation_input_tokens": spent.cache_written,
        "cache_read_input_tokens": spent.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": spent.cache_written,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": sum(map(of_part, parts)),
        "service_tier": "standard",
    }
    thinking = sum(of_part(part) for part in parts if isinstance(part, Thought))
    if thinking:
        usage["output_tokens_details"] = {"thinking_tokens": thinking}
    return usage


def _block(part: Part) -> dict[str, Any]:
    match part:
        case Thought(text=text, signature=signature, shown=shown):
            return {"type": "thinking", "thinking": text if shown else "", "signature": signature}
        case Say():
            return {"type": "text", "text": part.text}
        case Call(input_json=text):
            return {**_empty(part), "input": _object(text)}


def _object(text: str) -> msgspec.Raw | dict[str, Any]:
    """Broken input has no place in a JSON body: there it is an empty object."""
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return msgspec.Raw(text.encode())


def _empty(part: Part) -> dict[str, Any]:
    """A block as it starts, before its deltas."""
    match part:
        case Thought():
            return {"type": "thinking", "thinking": "", "signature": ""}
        case Say():
            return {"type": "text", "text": ""}
        case Call(id=call_id, name=name):
            caller = {"type": "direct"}
            return {"type": "tool_use", "id": call_id, "name": name, "input": {}, "caller": caller}


def _deltas(part: Part, index: int) -> Iterator[bytes]:
    match part:
        case Thought(text=text, signature=signature, shown=shown):
            for piece in pieces.few_words(text) if shown else ():
                yield _delta(index, b'"thinking_delta","thinking"', piece)
            yield _delta(index, b'"signature_delta","signature"', signature)
        case Say():
            for piece in part.pieces:
                yield _delta(index, b'"text_delta","text"', piece)
        case Call(input_json=text):
            yield _delta(index, b'"input_json_delta","partial_json"', "")
            for piece in pieces.of_json(text):
                yield _delta(index, b'"input_json_delta","partial_json"', piece)


def _delta(index: int, kind: bytes, piece: str) -> bytes:
    """Written by hand: there is one for every few words."""
    return b"".join(
        (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":',
            str(index).encode(),
            b',"delta":{"type":',
            kind,
            b":",
            _encode(piece),
            b"}}\n\n",
        )
    )
