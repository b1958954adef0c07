"""What is on the wire, byte for byte: a change to a golden file is a change of the contract."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentchat.contracts import events, frames, messages, wire
from agentchat.contracts.examples import EVENT_EXAMPLES
from agentchat.contracts.http import DeltaEvent
from agentchat.contracts.message_base import BusMessage
from tests.contracts.wire_examples import FRAME_EXAMPLES, MESSAGE_EXAMPLES

GOLDEN = Path(__file__).parent / "golden"

EXAMPLES = [
    *(("events", example) for example in EVENT_EXAMPLES),
    *(("messages", example) for example in MESSAGE_EXAMPLES),
    *(("frames", example) for example in FRAME_EXAMPLES),
]


def write_missing() -> None:
    """`python -m tests.contracts.test_wire`: the golden files of examples that have none."""
    for kind, example in EXAMPLES:
        golden = GOLDEN / kind / f"{type(example).__name__}.json"
        if not golden.exists():
            golden.write_bytes(msgspec.json.format(wire.encode(example)) + b"\n")


@pytest.mark.parametrize(("kind", "example"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_every_example_has_its_golden_form(kind: str, example: msgspec.Struct) -> None:
    golden = (GOLDEN / kind / f"{type(example).__name__}.json").read_bytes()
    assert json.loads(wire.encode(example)) == json.loads(golden)
    if isinstance(example, BusMessage):
        assert wire.decode_message(type(example), golden) == example
    elif isinstance(example, events.Fact):
        assert wire.decode_event(golden) == example
        assert json.loads(golden)["type"] == events.get_tag(example)
    else:
        assert wire.decode_frame(golden) == example


def test_every_type_on_the_wire_has_an_example() -> None:
    assert [type(example) for example in EVENT_EXAMPLES] == list(events.EVENTS)
    assert {type(example) for example in FRAME_EXAMPLES} == set(frames.LiveFrame.__subclasses__())
    assert {type(example) for example in MESSAGE_EXAMPLES} == set(BusMessage.__subclasses__())


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b'{"type":"Alive","seq":1', id="cut"),
        pytest.param(b'{"type":"Alive","seq":"1","attempt":1}', id="wrong type"),
        pytest.param(b'{"type":"Nobody"}', id="unknown"),
        pytest.param(b'{"type":"Delta","seq":1,"attempt":1,"round":1,"text":"\xff"}', id="no UTF-8"),
        pytest.param(b'{"type":"Alive","x":' + b"[" * 200_000, id="nested"),
    ],
)
def test_whatever_is_wrong_with_bytes_is_a_decode_error(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        wire.decode_frame(data)
    with pytest.raises(msgspec.DecodeError):
        wire.decode_event(data)
    with pytest.raises(msgspec.DecodeError):
        wire.decode_message(messages.ChatRequested, data)


def test_a_tag_is_the_name_and_its_version() -> None:
    tags = [events.get_tag(example) for example in EVENT_EXAMPLES]
    assert tags[3] == "message_saved.v1"
    assert len(set(tags)) == len(tags)


@given(st.text())
def test_no_text_breaks_an_sse_event(text: str) -> None:
    sent = wire.encode_sse(DeltaEvent(content=text)) if _is_encodable(text) else None
    if sent is None:
        return
    assert sent.startswith(b"data: ")
    assert sent.endswith(b"\n\n")
    lines = sent.decode().splitlines()
    assert len(lines) == 2
    assert lines[1] == ""
    assert json.loads(lines[0].removeprefix("data: ")) == {"type": "delta", "content": text}


def test_the_separators_some_clients_split_at_are_escaped() -> None:
    sent = wire.encode_sse(DeltaEvent(content="a\u0085b\u2028c\u2029d\r\ne"))
    assert sent == b'data: {"type":"delta","content":"a\\u0085b\\u2028c\\u2029d\\r\\ne"}\n\n'


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def test_frames_of_workers_before_outputs_left_them_decode() -> None:
    returned = b'{"type":"ToolReturned","seq":5,"attempt":1,"call_id":"c","output":"{}","is_error":false}'
    assert wire.decode_frame(returned) == frames.ToolReturnedFrame(
        seq=5, attempt=1, call_id="c", is_error=False
    )


if __name__ == "__main__":
    write_missing()
