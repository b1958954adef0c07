"""What a call cost whose stream broke off before its provider reported it: an estimate by length. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from contracts.values import Usage
from orchestrator.models.port import ModelCall

CHARACTERS_A_TOKEN = 4
"""As providers advise for English text; other languages have fewer."""


def with_estimates(reported: Usage, call: ModelCall, received: Iterable[Mapping[str, Any]]) -> Usage:
    """`reported`, with an estimate of what is missing: the input where none was reported, the output where
    the blocks `received` have more than was reported.
    """
    sent = reported.input_tokens + reported.cache_read_tokens + reported.cache_creation_tokens
    return msgspec.structs.replace(
        reported,
        input_tokens=reported.input_tokens if sent else _tokens(_length_of_call(call)),
        output_tokens=max(reported.output_tokens, _tokens(sum(map(_length_of, received)))),
    )


def _tokens(length: int) -> int:
    return -(-length // CHARACTERS_A_TOKEN)


def _length_of_call(call: ModelCall) -> int:
    blocks = (block for message in call.messages for block in message["content"])
    tools = sum(len(msgspec.json.encode(each)) for each in call.tools)
    return len(call.system) + len(call.already_sent) + tools + sum(map(_length_of, blocks))


def _length_of(block: Mapping[str, Any]) -> int:
    """Characters of text; of what is none, bytes of JSON."""
    text = block.get("text") or block.get("thinking")
    if isinstance(text, str):
        return len(text)
    content = block.get("input") or block.get("content")
    return len(content) if isinstance(content, str) else len(msgspec.json.encode(content)) if content else 0
