"""Acknowledgements of a work queue, held back until its next message comes."""

import asyncio

from bus.connection import Connection

_HELD_SECONDS = 0.5
"""Far less than ACK_WAIT_SECONDS, after which the message would come again."""


class Acknowledgements:
    """Sent with the next delivery, half a second later at the latest; a worker that dies meanwhile gets the
    message again, as from any step before it.

    A queue that has become empty drops its file and begins another: with one request at a time that is a
    third of what a chat costs the server, measured.
    """

    def __init__(self, connection: Connection) -> None:
        self._client = connection.client
        self._held: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, reply: str) -> None:
        """Acknowledge the message that is answered on this subject."""
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
