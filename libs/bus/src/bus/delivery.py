"""One message of a work queue while a handler has it, and the acknowledgements of such messages."""

import asyncio
import contextlib
from collections.abc import Callable

from bus import headers
from bus.connection import Connection
from bus.errors import BusUnavailable

_NANOSECONDS = 1_000_000_000
_HELD_SECONDS = 0.5
"""Far less than ACK_WAIT_SECONDS, after which the message would come again."""


class Acknowledgements:
    """Those of a work queue, sent with its next delivery, half a second later at the latest.

    A message whose worker dies meanwhile is delivered again, as after any other step.

    A queue that has become empty drops its file and begins another: with one request at a time that is a
    third of what a chat costs the server, measured.
    """

    def __init__(self, connection: Connection) -> None:
        self._client = connection.client
        self._held: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, reply: str) -> None:
        self._held.append(reply)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_HELD_SECONDS, self.send)

    def send(self) -> None:
        """Send what is held. What the server does not read in time, it delivers again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held, self._held = self._held, []
        for reply in held:
            self._client.publish_now(reply, b"+ACK")


class Delivery:
    """A message, to be settled once by `ack`, `nak` or `term`.

    One whose handler returns unsettled is acknowledged. It comes again after 10 s without a sign of life, up
    to 50 times. `slot_freed`: another message may come in its slot. None of the methods raises: what NATS
    does not receive, it delivers again.
    """

    def __init__(
        self,
        connection: Connection,
        subject: str,
        reply: str,
        data: bytes,
        block: bytes | None,
        acknowledgements: Acknowledgements,
        on_slot_freed: Callable[[], None],
    ) -> None:
        self.subject = subject
        self.data = data
        self.headers = headers.parse(block)  # names in lower case
        self.attempt, self.sequence = _counts(reply)  # times delivered, from 1; place in the stream
        self.settled = False
        self.slot_freed = False
        self._reply = reply
        self._connection = connection
        self._acknowledgements = acknowledgements
        self._on_slot_freed = on_slot_freed

    def free_slot(self) -> None:
        """Have another message taken up in place of this one, whose handler will wait for long."""
        if not self.slot_freed:
            self.slot_freed = True
            self._on_slot_freed()

    async def ack(self, *, at_once: bool = False) -> None:
        """Done: the message leaves the queue, within half a second.

        `at_once`: before anything that is sent after this on the same connection.
        """
        if at_once:
            await self._settle(b"+ACK")
        elif not self.settled:
            self.settled = True
            self._acknowledgements.add(self._reply)

    async def nak(self, delay: float = 0.0) -> None:
        """Put it back, to be delivered again after `delay` seconds. Each delivery counts towards the 50."""
        await self._settle(b'-NAK {"delay": %d}' % int(delay * _NANOSECONDS) if delay else b"-NAK")

    async def term(self) -> None:
        """Give it up: the message leaves the queue undone."""
        await self._settle(b"+TERM")

    async def in_progress(self) -> None:
        """Take another 10 s. The bus does this by itself every 3 s while the handler runs."""
        if not self.settled:
            await self._send(b"+WPI")

    async def _settle(self, word: bytes) -> None:
        if not self.settled:
            self.settled = True
            await self._send(word)

    async def _send(self, word: bytes) -> None:
        with contextlib.suppress(BusUnavailable):
            await self._connection.publish(self._reply, word)


def _counts(reply: str) -> tuple[int, int]:
    """Deliveries and stream sequence out of `$JS.ACK...`: 9 tokens, or 11 and more with a domain (ADR-15)."""
    tokens = reply.split(".")
    first = 4 if len(tokens) == 9 else 6
    return int(tokens[first]), int(tokens[first + 1])
