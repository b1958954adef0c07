"""Our parser delivers what nats-py's does, in its order, wherever the bytes were cut."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.errors import ProtocolError
from nats.protocol.parser import Parser

from bus.parser import DirectParser, Receive

pytestmark = pytest.mark.requirement("FRAMES")

DIRECT = 7
Heard = tuple[Any, ...]


class Client:
    """Notes what it is told. Subscription DIRECT has a receiver; nats-py keeps the others."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []

    def receiver_of(self, number: int) -> Receive | None:
        return (lambda *_: None) if number == DIRECT else None

    def deliver(self, _receive: Receive, *message: Any) -> None:
        self.heard.append((DIRECT, *message))
        assert len(self.heard) < 100, "it hears the same for ever"

    async def _process_msg(self, number: int, *message: Any) -> None:
        self.heard.append((number, *message))

    async def _process_ping(self) -> None:
        self.heard.append(("ping",))

    async def _process_pong(self) -> None:
        self.heard.append(("pong",))

    async def _process_err(self, error: str) -> None:
        self.heard.append(("error", error))


def message(number: int, payload: bytes, *, reply: str = "", block: bytes = b"") -> bytes:
    sizes = f"{len(block)} {len(block) + len(payload)}" if block else f"{len(payload)}"
    fields = " ".join(filter(None, ("HMSG" if block else "MSG", "a.b", str(number), reply, sizes)))
    return b"%b\r\n%b%b\r\n" % (fields.encode(), block, payload)


messages = st.builds(
    message,
    st.sampled_from([DIRECT, DIRECT, 8]),
    st.sampled_from([b"", b"x", b"MSG a.b 7 1\r\nx\r\n", b"\r\n" * 9, bytes(range(256)) * 40]),
    reply=st.sampled_from(["", "_INBOX.x.1"]),
    block=st.sampled_from([b"", b"NATS/1.0\r\na: b\r\n\r\n", b"NATS/1.0 503\r\n\r\n"]),
)
others = st.sampled_from([b"PING\r\n", b"PONG\r\n", b"+OK\r\n", b"-ERR 'Slow Consumer'\r\n"])


@given(st.lists(messages | others, max_size=12), st.lists(st.integers(0, 4000), max_size=12))
async def test_both_parsers_hear_the_same(sent: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(sent)
    places = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]
    ours, theirs = Client(), Client()
    mine, his = DirectParser(ours), Parser(theirs)
    for begin, end in itertools.pairwise(places):
        if begin < end:
            await mine.parse(whole[begin:end])
            await his.parse(whole[begin:end])
    assert len(theirs.heard) == len([each for each in sent if not each.startswith(b"+OK")])
    assert [_told(each) for each in ours.heard] == [_told(each) for each in theirs.heard]


@pytest.mark.parametrize(
    "line",
    [
        b"MSG a.b seven 1\r\nx\r\n",
        b"MSG a.b 7 1 2 3 4\r\nx\r\n",
        b"MSG a.b 7 1_0\r\n0123456789\r\n",
        b"MSG a.b 7 -17\r\nx\r\n",
        b"HMSG a.b 7 -1 1\r\nx\r\n",
        b"MSG a.b 7 %b\r\nx\r\n" % (b"1" * 5000),
        b"NO a b\r\n",
    ],
    ids=lambda line: line[:24].decode(),
)
async def test_what_is_no_protocol_is_an_error_behind_what_came_before(line: bytes) -> None:
    client = Client()
    with pytest.raises(ProtocolError):
        await DirectParser(client).parse(message(DIRECT, b"x") + line)
    assert client.heard == [(DIRECT, b"a.b", b"", b"x", None)]


def _told(heard: Heard) -> Heard:
    """An empty reply and no header block have two forms in nats-py."""
    return tuple(each or None for each in heard)
