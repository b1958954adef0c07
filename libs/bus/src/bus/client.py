"""nats-py's client, with a short path for messages: what it offers takes twice the CPU time of a message.

- Messages of a direct subscription go to a function as they are read from the socket: no queue, task, message
  object and parsed headers for each, and 4 KiB less a subscription.
- A frame is published without waiting, and dropped where the server has stopped reading.

All else is nats-py's: requests, JetStream's calls, flushing, pings and reconnecting. The short path overrides
one private method of nats-py 2.16, `_process_msg`, and uses the fields `_sid`, `_subs`, `_pending`,
`_pending_data_size` and `_flush_queue`. What it saves is measured in docs/decisions/bus.md (94).
"""

import asyncio
from collections.abc import Callable
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.protocol import command

from runtime import logs

Receive = Callable[[str, str, bytes, bytes | None], None]
"""Takes subject, reply subject, payload and the raw header block; called on the loop, must not block."""

PENDING_BYTES = 2 * 1024 * 1024


class DirectSubscription(Subscription):
    """What nats-py asks of a subscription to send it again after a reconnect, and to close it; no queue."""

    _max_msgs = _received = 0
    _wait_for_msgs_task = _message_iterator = None
    _pending_next_msgs_calls = None  # type: ignore[assignment]  # as nats-py has it for callbacks

    def __init__(self, number: int, subject: str, queue: str, announced: bool) -> None:
        """`announced`: it is on its way to the server, and not only once that is connected again."""
        self._id = number
        self._subject = subject
        self._queue = queue
        self.announced = announced


class DirectClient(Client):
    """A connection to NATS; see `connection.connect` for the options that it is opened with."""

    def __init__(self) -> None:
        super().__init__()
        self._receivers: dict[int, Receive] = {}

    def subscribe_direct(self, subject: str, receive: Receive, queue: str = "") -> DirectSubscription:
        """Subscribe, with `receive` called for each message as it is read from the socket.

        The server knows of it before it gets what is published after this. Raises ConnectionClosedError.
        """
        if self.is_closed:
            raise nats.errors.ConnectionClosedError
        self._sid += 1
        announced = self.is_connected  # else nats-py does it with the reconnect
        subscription = self._subs[self._sid] = DirectSubscription(self._sid, subject, queue, announced)
        self._receivers[self._sid] = receive
        if announced:
            self._send_soon(command.sub_cmd(subject, queue, self._sid))
        return subscription

    def unsubscribe_direct(self, subscription: DirectSubscription) -> None:
        self._receivers.pop(subscription._id, None)
        known = self._subs.pop(subscription._id, None)
        if known is not None and (self.is_connected or subscription.announced):  # may still be in the buffer
            self._send_soon(command.unsub_cmd(subscription._id, 0))

    async def drain_direct(self, subscription: DirectSubscription, seconds: float) -> None:
        """Stop, but first receive what the server has sent already."""
        try:
            async with asyncio.timeout(seconds):
                self._send_soon(command.unsub_cmd(subscription._id, 0))
                # A request, because `flush` sends its PING ahead of what waits to be sent.
                await self.request("$JS.API.INFO", timeout=seconds)
        except (nats.errors.Error, OSError, TimeoutError):
            pass  # disconnected: nothing more will come
        finally:
            self._receivers.pop(subscription._id, None)
            self._subs.pop(subscription._id, None)

    def publish_now(self, subject: str, payload: bytes, *, headers: bytes = b"", reply: str = "") -> bool:
        """Append one message, with a ready header block or none, to the outgoing buffer.

        False if that is full, or if the server would not take a message of this size.
        """
        if self.pending_data_size > PENDING_BYTES or self.is_closed:
            return False
        if len(headers) + len(payload) > self.max_payload:
            return False
        if headers:
            self._send_soon(command.hpub_cmd(subject, reply, headers, payload))
        else:
            self._send_soon(command.pub_cmd(subject, reply, payload))
        return True

    def _send_soon(self, message: bytes) -> None:
        """Add to the outgoing buffer, and wake nats-py's flusher; while disconnected it sends nothing."""
        self._pending.append(message)
        self._pending_data_size += len(message)
        if self.is_connected and self._flush_queue is not None and self._flush_queue.empty():
            self._flush_queue.put_nowait(asyncio.get_running_loop().create_future())

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: Any) -> None:
        receive = self._receivers.get(sid)
        if receive is None:
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        try:
            receive(subject.decode(), reply.decode(), data, headers)
        except Exception:  # noqa: BLE001 - it would end the read loop, and with it what all others receive
            logs.get_logger("bus").exception("receiver_failed", subject=subject.decode("utf-8", "replace"))
