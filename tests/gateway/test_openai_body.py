"""What the OpenAI API reads and writes, byte by byte."""

from typing import Any

import msgspec
import pytest

from agentchat.contracts.examples import CONVERSATION
from agentchat.contracts.updates import Broken, Started, TextUpdate
from agentchat.contracts.values import ShownMessage
from agentchat.gateway.protocols.client_history import ClientHistory
from agentchat.gateway.protocols.openai.completion_answers import CompletionChunks
from agentchat.gateway.protocols.openai.completion_body import ChatCompletion, read_messages
from tests.gateway.live_frames import make_events, make_finished

HI: dict[str, Any] = {"role": "user", "content": "hi"}


def make_body(*messages: dict[str, Any], **fields: Any) -> bytes:
    return msgspec.json.encode({"model": "m", "messages": messages, **fields})


def read_shown(data: bytes) -> ClientHistory:
    body = msgspec.json.decode(data, type=ChatCompletion)
    return read_messages(body.messages, "messages").build_history("messages")


def make_called(name: str, arguments: Any, call_id: str = "1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_what_tools_elsewhere_did_is_told_in_words() -> None:
    calls = [make_called("find", '{"q":1}'), make_called("sum", {"n": 10**30}, "2")]
    sent = make_body(
        {"role": "system", "content": "Be brief."},
        HI,
        {"role": "assistant", "content": "Wait.", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "3"}]},
        {"role": "assistant", "content": None, "function_call": {"name": "old", "arguments": "{}"}},
        {"role": "function", "name": "old", "content": None},
        {"role": "assistant", "content": "So: "},
        {"role": "assistant", "content": "three."},
        {"role": "assistant", "tool_calls": [{"type": "custom", "custom": {"name": "c", "input": "x"}}]},
        HI,
        {"role": "developer", "content": "In French."},
    )
    shown = read_shown(sent)
    assert shown.instructions == "Be brief.\n\nIn French."
    assert shown.messages == (
        ShownMessage("user", "hi"),
        ShownMessage("assistant", f'Wait.\n[Tool call find: {{"q":1}}]\n[Tool call sum: {{"n":{10**30}}}]'),
        ShownMessage("user", "[Tool result sum: 3]"),
        ShownMessage("assistant", "[Tool call old: {}]"),
        ShownMessage("user", "[Tool result old: ]"),
        ShownMessage("assistant", "So: three.[Tool call c: x]"),
        ShownMessage("user", "hi"),
    )


@pytest.mark.parametrize("is_whole", [True, False])
def test_every_stream_is_lines_of_json_whatever_the_text_holds(is_whole: bool) -> None:
    text = "a\u2028b\u2029c\x85d\re\nf"
    last = make_finished(text) if is_whole else Broken("unheard-of", text)
    chunks = CompletionChunks("id", "m", 0, CONVERSATION, include_usage=True)
    told = make_events(chunks.encode([Started(), TextUpdate(text), last]))
    assert told[1]["choices"][0]["delta"]["content"] == text
    if is_whole:
        assert told[-1] == "[DONE]"
        assert told[-3]["choices"][0]["finish_reason"] == "stop"
    else:
        assert told[-1]["error"]["code"] == "internal_error"
