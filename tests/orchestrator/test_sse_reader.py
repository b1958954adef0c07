# ruff: noqa: E501 - tables of streams
"""The reader of providers' event streams, after the HTML standard (9.2.6) and its test cases (WPT, eventsource)."""

import pytest

from agentchat.orchestrator.models.sse_reader import EventReader

BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        # The standard's examples.
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [b"YHOO\n+2\n10"]),
        (
            b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
            [b"first event", b"second event", b" third event"],
        ),
        (b"data\n\ndata\ndata\n\ndata:", [b"", b"\n"]),
        (b"data:test\n\ndata: test\n\n", [b"test", b"test"]),
        # WPT: format-bom, format-bom-2.
        (BOM + b"data:1\n\n" + BOM + b"data:2\n\ndata:3\n\n", [b"1", b"3"]),
        (BOM + BOM + b"data:1\n\ndata:2\n\n", [b"2"]),
        # WPT: format-newlines, with each line end, mixed and cut.
        (b"data:test\r\n\ndata:test\n\r\n\r\n", [b"test", b"test"]),
        (b"data:a\rdata:b\r\rdata:c\r\r", [b"a\nb", b"c"]),
        (b"data:a\r\ndata:b\r\n\r\ndata:c\r\n\r\n", [b"a\nb", b"c"]),
        # WPT: format-comments, format-field-parsing, format-leading-space, format-field-unknown.
        (
            b"data:1\n:\0\n:\ndata:2\n:" + b"long" * 999 + b"\ndata:3\n:data:fail\n:long\ndata:4\n\n",
            [b"1\n2\n3\n4"],
        ),
        (
            b"data:\0\ndata:  2\nData:1\ndata\0:2\ndata:1\n\xc2\xa0data:4\nda-ta:3\ndata_5\ndata:3\ndata:\n data:32\ndata:4\n\n",
            [b"\0\n 2\n1\n3\n\n4"],
        ),
        (b"data:\ttest\rdata: \ndata:test\n\n", [b"\ttest\n\ntest"]),
        (b"data:test\n data\ndata\nfoobar:xxx\njustsometext\n:thisisacommentyay\n\n", [b"test\n"]),
        # WPT: format-data-before-final-empty-line; format-null-character; format-utf-8.
        (b"retry:1000\ndata:test1\n\nid:test\ndata:test2", [b"test1"]),
        (b"data:\0\n\n\n\n", [b"\0"]),
        ("data:ok…\n\n".encode(), ["ok…".encode()]),
        # A keep-alive without data.
        (b"\n\n: ping\n\nevent: ping\n\ndata: x\n\n", [b"x"]),
    ],
)
def test_streams_are_read_as_the_standard_says(stream: bytes, expected: list[bytes]) -> None:
    for size in (len(stream), 1, 2, 3, 7):
        reader = EventReader()
        pieces = (stream[at : at + size] for at in range(0, len(stream), size))
        assert [data for piece in pieces for _, data in reader.feed(piece)] == expected


def test_an_events_type_ends_with_it() -> None:
    found = list(
        EventReader().feed(b"event: a\ndata: 1\n\ndata: 2\n\nevent: b\n\ndata: 3\n\nevent:c\ndata:4\n\n")
    )
    assert found == [(b"a", b"1"), (b"", b"2"), (b"", b"3"), (b"c", b"4")]
