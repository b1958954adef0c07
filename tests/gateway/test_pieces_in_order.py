"""Pieces of a stream that are written past its task come after those that the task is about to send."""

import asyncio
import re
import socket
from typing import Any

from contracts.updates import Broken, Text, Update
from gateway.http.body_reader import BodyReader
from gateway.http.exchange import ATTRIBUTE, Exchange
from gateway.http.strict_protocol import StrictProtocol
from gateway.protocols import wording_at
from gateway.runs.event_stream import EventStream
from gateway.runs.followed_run import RunFollower
from gateway.runs.run_updates import UpdateQueue
from gateway.runs.view import View
from runtime.web import serve
from tests.gateway.client import slow_socket
from tests.ports import free_port


class Numbers:
    """Numbered pieces of 8 KiB, as many as the test says. `taken` is set by each `take`."""

    def __init__(self) -> None:
        self.said = 0
        self.ended = False
        self.taken = asyncio.Event()
        self._updates = UpdateQueue()
        self.follower = RunFollower(View(), self._updates)

    def say(self) -> bool:
        """One piece more; whether it was written at once."""
        assert self.follower.on_updates is not None, "the answer has begun"
        self._add(Text(f"#{self.said:8191}"))
        self.said += 1
        return not len(self._updates)

    def end(self) -> None:
        self.ended = True
        self._add(Broken("cancelled", ""))

    def take(self) -> bytes:
        self.taken.set()
        return b"".join(update.text.encode() for update in self.follower.take() if isinstance(update, Text))

    def _add(self, update: Update) -> None:
        self._updates.add([update])
        self.follower.notify()


async def test_a_piece_that_comes_when_the_client_reads_again_is_not_ahead_of_the_one_that_waits() -> None:
    numbers = Numbers()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            exchange = Exchange(scope, receive, send, "0" * 32, BodyReader(), wording_at("/").words)
            inner = {**scope, "state": {ATTRIBUTE: exchange}}
            await EventStream(numbers.follower, numbers.take).to_asgi_response()(inner, receive, send)

    class Protocol(StrictProtocol):
        def resume_writing(self) -> None:
            super().resume_writing()
            if not numbers.ended:
                numbers.say()  # in the same turn of the loop, before the task can go on
                numbers.end()

    stop, port = asyncio.Event(), free_port()
    serving = asyncio.create_task(serve(app, "127.0.0.1", port, stop, protocol=Protocol))
    async with asyncio.timeout(30):
        client = await _connected(port)
        await numbers.taken.wait()
        while numbers.say():
            pass
        numbers.taken.clear()
        await numbers.taken.wait()  # the task has the last piece, and waits for room
        got = bytearray()
        while not got.endswith(b"0\r\n\r\n"):
            got += await asyncio.get_running_loop().sock_recv(client, 1 << 20)
    client.close()
    stop.set()
    await serving
    assert [int(number) for number in re.findall(rb"# *(\d+)", got)] == list(range(numbers.said))


async def _connected(port: int) -> socket.socket:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:  # it does not listen yet
            await asyncio.sleep(0.01)
        else:
            writer.close()
            return await slow_socket(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
