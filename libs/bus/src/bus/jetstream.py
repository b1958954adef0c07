"""JetStream's API as far as the bus needs it: acknowledged publishing, direct gets, provisioning.

Sources: NATS docs, "JetStream wire API"; ADR-31 (direct get, also of many messages).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import msgspec
import nats.errors

from bus import headers, provisioning, users
from bus.connection import Connection
from bus.errors import BusUnavailable, FeedConflict
from runtime import logs, telemetry

T = TypeVar("T")

API_SECONDS = 2.0
# A publication is tried again within its time: its Nats-Msg-Id makes that safe.
_TRY_SECONDS = 0.9
_WRONG_LAST = (10070, 10071)  # message id, sequence
_RETRY_SECONDS = 0.1


class ApiError(msgspec.Struct):
    """An error of JetStream; `err_code` is of its table of errors."""

    code: int
    err_code: int = 0
    description: str = ""


class _PublishReply(msgspec.Struct):
    seq: int = 0
    duplicate: bool = False
    error: ApiError | None = None


class _State(msgspec.Struct):
    messages: int = 0
    last_seq: int = 0


class _Delivered(msgspec.Struct):
    stream_seq: int


class ApiReply(msgspec.Struct):
    """A reply of the management API, as far as it is used.

    Of a consumer: `num_pending` messages were never delivered; `delivered` is the last that was; `ts` is the
    server's time. Of the account: how many `streams` and `consumers` it has.
    """

    error: ApiError | None = None
    state: _State | None = None
    config: dict[str, Any] | None = None
    num_pending: int = 0
    delivered: _Delivered | None = None
    ts: str = ""
    streams: int = 0
    consumers: int = 0


class StoredMessage(msgspec.Struct, frozen=True):
    """A message of a stream: its subject, sequence, headers (lower-case names) and payload."""

    subject: str
    sequence: int
    headers: dict[str, str]
    data: bytes


class JetStream:
    """Calls of one connection to JetStream. Each raises BusUnavailable when NATS does not answer."""

    def __init__(self, connection: Connection, replicas: int = 1) -> None:
        self._connection = connection
        self._replicas = replicas
        self._log = logs.get_logger("bus")

    @property
    def max_payload(self) -> int:
        """Bytes that the server takes as one message, headers included."""
        return self._connection.client.max_payload

    async def publish(
        self,
        subject: str,
        payload: bytes,
        message_id: str,
        more: dict[str, str] | None = None,
        *,
        seconds: float = API_SECONDS,
    ) -> int:
        """Publish and wait for the stream's acknowledgement; returns the sequence.

        Raises BusUnavailable, or FeedConflict where `more` expects another last message.
        """
        block = headers.block(telemetry.inject({"Nats-Msg-Id": message_id, **(more or {})}))
        now = asyncio.get_running_loop().time
        end = now() + seconds
        while (left := end - now()) > 0:
            try:
                data, _ = await self._connection.request(
                    subject, payload, seconds=min(_TRY_SECONDS, left), block=block
                )
            except nats.errors.NoRespondersError:
                with contextlib.suppress(BusUnavailable, TimeoutError):
                    async with asyncio.timeout_at(end):
                        await self.provision()
            except BusUnavailable:
                self._log.debug("publish_repeated", subject=subject)
            else:
                return _sequence(data, more)
            await asyncio.sleep(_RETRY_SECONDS)
        raise BusUnavailable(f"no acknowledgement on {subject}")

    async def call(self, operation: str, body: object = None, *, seconds: float = API_SECONDS) -> ApiReply:
        """One call of the management API, such as `STREAM.INFO.EVENTS`."""
        payload = b"" if body is None else msgspec.json.encode(body)
        try:
            data, _ = await self._connection.request(f"$JS.API.{operation}", payload, seconds=seconds)
        except nats.errors.NoRespondersError as error:
            raise BusUnavailable("JetStream is not there") from error
        return msgspec.json.decode(data, type=ApiReply)

    async def provision(self) -> None:
        """Create what is missing of streams and consumers, and restore what is ours; see `provisioning`.

        A user who may not do that leaves it to the one who may.
        """
        if users.may_provision(self._connection.user):
            await provisioning.provision(self, self._replicas)

    async def counts(self) -> tuple[int, int]:
        """How many streams and consumers there are."""
        reply = await self.call("INFO")
        self.check(reply, "the account's state")
        return reply.streams, reply.consumers

    async def state(self, stream: str) -> tuple[int, int]:
        """(sequence of the last message ever stored in `stream`, how many messages it holds)."""
        reply = await self.call(f"STREAM.INFO.{stream}")
        self.check(reply, stream)
        return (reply.state.last_seq, reply.state.messages) if reply.state else (0, 0)

    async def last_message(self, stream: str, subject: str) -> StoredMessage | None:
        """The newest message on `subject` (wildcards allowed) that `stream` holds."""
        return await self._direct_get(stream, {"last_by_subj": subject})

    async def message(self, stream: str, sequence: int) -> StoredMessage | None:
        """One message by its sequence."""
        return await self._direct_get(stream, {"seq": sequence})

    async def delete(self, stream: str, sequence: int, *, overwrite: bool = False) -> None:
        """Remove one message, and `overwrite` what is stored of it; it is no error if it is gone."""
        reply = await self.call(f"STREAM.MSG.DELETE.{stream}", {"seq": sequence, "no_erase": not overwrite})
        if reply.error is not None and await self.message(stream, sequence) is not None:
            self.check(reply, f"to delete a message of {stream}")

    async def purge(self, stream: str, subject: str) -> None:
        """Remove all messages on `subject` (wildcards allowed)."""
        self.check(await self.call(f"STREAM.PURGE.{stream}", {"filter": subject}), f"to purge {subject}")

    async def next_message(self, stream: str, subject: str, start: int) -> StoredMessage | None:
        """The first message on `subject` (wildcards allowed) from sequence `start` on."""
        return await self._direct_get(stream, {"seq": start, "next_by_subj": subject})

    async def messages(self, stream: str, subject: str, start: int = 1) -> AsyncIterator[StoredMessage]:
        """What `stream` holds on `subject` (wildcards allowed) from sequence `start` on, oldest first.

        Needs nats-server 2.11.
        """
        while True:
            batch, more = await self._batch(stream, subject, start)
            for message in batch:
                yield message
            if not batch or not more:
                return
            start = batch[-1].sequence + 1

    async def _batch(self, stream: str, subject: str, start: int) -> tuple[list[StoredMessage], bool]:
        """Up to a thousand messages from sequence `start` on in one request, and whether there are more."""
        got: list[StoredMessage] = []
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def receive(_subject: str, _reply: str, data: bytes, block: bytes | None) -> None:
            status = headers.status(block)
            if not status:
                got.append(_stored(data, block))
            elif not ended.done():
                ended.set_result(status)

        client = self._connection.client
        inbox = client.new_inbox()
        subscription = client.subscribe_direct(inbox, receive)
        request = {"seq": start, "next_by_subj": subject, "batch": _BATCH}
        try:
            async with asyncio.timeout(API_SECONDS):
                await self._connection.wait_up()
                await client.publish_soon(
                    f"$JS.API.DIRECT.GET.{stream}", msgspec.json.encode(request), reply=inbox
                )
                status = await ended
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise BusUnavailable(f"{stream} cannot be read") from error
        finally:
            client.unsubscribe_direct(subscription)
        if status not in (_END_OF_BATCH, _NOT_FOUND):
            raise BusUnavailable(f"{stream} cannot be read: status {status}")
        return got, status == _END_OF_BATCH and len(got) > 0 and _pending(got[-1]) > 0

    async def _direct_get(self, stream: str, body: dict[str, Any]) -> StoredMessage | None:
        try:
            data, block = await self._connection.request(
                f"$JS.API.DIRECT.GET.{stream}", msgspec.json.encode(body), seconds=API_SECONDS
            )
        except nats.errors.NoRespondersError as error:
            raise BusUnavailable(f"{stream} is not there") from error
        status = headers.status(block)
        if status == _NOT_FOUND:
            return None
        if status:
            raise BusUnavailable(f"{stream} cannot be read: {status} {headers.description(block)}")
        return _stored(data, block)

    def check(self, reply: ApiReply, what: str) -> None:
        """Raises BusUnavailable for a refusal, which says that `what` was refused."""
        if reply.error is not None:
            raise BusUnavailable(f"JetStream refused {what}: {reply.error.description}")


_BATCH = 1000
_END_OF_BATCH = 204
_NOT_FOUND = 404


def _stored(data: bytes, block: bytes | None) -> StoredMessage:
    found = headers.parse(block)
    return StoredMessage(found["nats-subject"], int(found["nats-sequence"]), found, data)


def _pending(message: StoredMessage) -> int:
    return int(message.headers.get("nats-num-pending", "0"))


def _sequence(data: bytes, more: dict[str, str] | None) -> int:
    reply = msgspec.json.decode(data, type=_PublishReply)
    if reply.error is None:
        return reply.seq
    if reply.error.err_code in _WRONG_LAST:
        raise FeedConflict(int((more or {}).get("Nats-Expected-Last-Sequence", "0")))
    raise BusUnavailable(f"JetStream refused: {reply.error.description}")
