"""nats-py's parser, past its regular expressions and a coroutine for each message where all of it is here."""

from collections.abc import Callable
from typing import Protocol

from nats.protocol.parser import AWAITING_CONTROL_LINE, Parser

Receive = Callable[[str, str, bytes, bytes | None], None]
"""Takes subject, reply subject, payload and the raw header block; called on the loop, must not block."""


class Receiver(Protocol):
    """Who has the receivers, by the number of their subscription."""

    def receiver_of(self, number: int) -> Receive | None: ...

    def deliver(
        self, receive: Receive, subject: bytes, reply: bytes, data: bytes, block: bytes | None
    ) -> None: ...


class DirectParser(Parser):
    """Delivers the messages of direct subscriptions itself; all else is nats-py's to parse, as are messages
    that are not whole yet (docs/performance.md: a delta costs the gateway 5 µs less).
    """

    def __init__(self, client: Receiver) -> None:
        super().__init__(client)
        self._client = client

    async def parse(self, data: bytes = b"") -> None:
        """As nats-py does it, in the same order."""
        if self.state == AWAITING_CONTROL_LINE:
            whole = bytes(self.buf) + data if self.buf else data
            self.buf.clear()
            data = whole[self._deliver(whole) :]
        if data:
            await super().parse(data)

    def _deliver(self, data: bytes) -> int:
        """Deliver what `data` begins with; returns where that ends which is to be delivered here."""
        place = 0
        while (line_end := data.find(b"\r\n", place)) > 0:
            operation, *fields = data[place:line_end].split(b" ")
            with_block = operation == b"HMSG"
            if not (with_block or operation == b"MSG") or not 3 + with_block <= len(fields) <= 4 + with_block:
                return place
            numbers = (fields[1], fields[-1], fields[-2] if with_block else b"0")
            if not all(map(bytes.isdigit, numbers)):  # a sign would lead back in `data`, for ever
                return place
            try:
                number, size, block_size = map(int, numbers)
            except ValueError:  # longer than Python reads
                return place
            receive = self._client.receiver_of(number)
            begin = line_end + 2
            end = begin + size
            if receive is None or len(data) < end + 2:
                return place
            reply = fields[2] if len(fields) > 3 + with_block else b""
            payload = data[begin + block_size : end]
            block = data[begin : begin + block_size] if with_block else None
            self._client.deliver(receive, fields[0], reply, payload, block)
            place = end + 2
        return place
