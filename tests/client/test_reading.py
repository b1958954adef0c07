"""The read rule by itself: which bytes are a line, and which lines count."""

import json

import pytest

from agentchat.client import stream_events
from agentchat.client.stream_reader import LineReader


def read(*pieces: bytes) -> list[bytes]:
    reader = LineReader()
    return [line for piece in pieces for line in reader.feed(piece)] + list(reader.end())


def test_only_lines_that_begin_with_data_colon_space_count() -> None:
    assert read(b": ping\ndata: 1\ndata:2\n data: 3\nDATA: 4\nevent: data: 5\n\ndata: 6\n") == [b"1", b"6"]


@pytest.mark.parametrize(
    "separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"], ids=lambda text: f"U+{ord(text):04X}"
)
def test_no_other_line_separator_ends_a_line(separator: str) -> None:
    text = f"one{separator}data: two"
    (line,) = read(f'data: {{"type":"delta","content":"{text}"}}\n'.encode())
    if separator >= " ":
        assert stream_events.decode(line) == stream_events.Delta(content=text)
    assert text.encode() in line


def test_a_carriage_return_within_a_line_does_not_end_it() -> None:
    assert read(b"data: a\rdata: b\n") == [b"a\rdata: b"]


def test_lines_that_end_with_carriage_return_and_newline_decode() -> None:
    lines = read(b'data: {"type":"delta","content":"a"}\r\n\r\n: ping\r\ndata: {"type":"meh"}\r\n')
    assert [stream_events.decode(line) for line in lines] == [stream_events.Delta(content="a"), None]


def test_a_line_is_whole_only_with_its_newline() -> None:
    reader = LineReader()
    assert list(reader.feed(b"data: a")) == []
    assert list(reader.feed(b"b\nda")) == [b"ab"]
    assert list(reader.feed(b"ta: c")) == []
    assert list(reader.end()) == [b"c"]
    assert list(reader.end()) == []


def test_every_cut_in_two_reads_the_same() -> None:
    complete = ': ping\n\ndata: {"a":"ü🙂\u2028"}\r\n\ndata: 2\n\n'.encode()
    cuts = [read(complete[:at], complete[at:]) for at in range(len(complete) + 1)]
    assert all(lines == cuts[0] for lines in cuts)
    assert [json.loads(line) for line in cuts[0]] == [{"a": "ü🙂\u2028"}, 2]


def test_a_done_with_a_message_is_form_2s() -> None:
    plain = b'{"type":"done","conversation_id":"c","trace_id":"t"}'
    assert stream_events.decode(plain) == stream_events.Done(conversation_id="c", trace_id="t")
    with pytest.raises(ValueError, match="message"):
        stream_events.decode(b'{"type":"done","message":{}}')


def test_an_unknown_type_is_no_event() -> None:
    assert stream_events.decode(b'{"type":"surprise","content":1}') is None
