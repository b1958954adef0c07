"""Call JetStream: acknowledged publishing, direct gets, provisioning.

Uses nats-py's context if that has the call. nats-py has no direct get of many messages, or of the last
message by a wildcard (ADR-31).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import msgspec
import nats.errors
import nats.js.errors
from nats.aio.msg import Msg
from nats.js.api import Header

from agentchat.bus import nats_users, stream_settings
from agentchat.bus.connection import Connection
from agentchat.bus.errors import BusUnavailable, FeedConflict
from agentchat.runtime import logs, tracing

T = TypeVar("T")

API_SECONDS = 2.0
_PROVISION_SECONDS = 30.0
# A publication is retried within its time; its Nats-Msg-Id makes that safe.
_TRY_SECONDS = 0.9
_WRONG_LAST = (10070, 10071)  # message id, sequence
_IN_PROCESS = 10158
"""The stream's leader has an earlier attempt that its replicas have not confirmed yet."""
_RETRY_SECONDS = 0.1


class _Delivered(msgspec.Struct):
    stream_seq: int


class ConsumerState(msgspec.Struct):
    """The state of a consumer. nats-py's type lacks the server's time.

    `num_pending` messages were never delivered, `delivered` is the last one that was, `ts` the server's time.
    """

    num_pending: int
    delivered: _Delivered
    ts: datetime


class StoredMessage(msgspec.Struct, frozen=True):
    """A message of a stream: its subject, sequence, headers and payload."""

    subject: str
    sequence: int
    headers: dict[str, str]
    data: bytes

    @property
    def stored_at(self) -> datetime:
        """The server's time when the message was stored."""
        return datetime.fromisoformat(self.headers["Nats-Time-Stamp"])


class JetStream:
    """Calls of one connection to JetStream. Each raises BusUnavailable if NATS does not answer."""

    def __init__(self, connection: Connection, replicas: int = 1) -> None:
        self._connection = connection
        self._context = connection.client.jetstream(timeout=API_SECONDS)
        self._replicas = replicas
        self._log = logs.get_logger("bus")

    async def publish(
        self,
        subject: str,
        payload: bytes,
        message_id: str,
        more: dict[str, str] | None = None,
        *,
        seconds: float = API_SECONDS,
    ) -> int:
        """Publish, wait for the stream's acknowledgement and return the message's sequence.

        Raises:
            BusUnavailable: No acknowledgement in time.
            FeedConflict: `more` expects another last message.
        """
        stated = tracing.inject({"Nats-Msg-Id": message_id, **(more or {})})
        now = asyncio.get_running_loop().time
        end = now() + seconds
        while (left := min(_TRY_SECONDS, end - now())) > 0:
            publish = partial(self._context.publish, subject, payload, left, headers=stated)
            try:
                stored = await self._connection.call(subject, publish, seconds=left)
            except nats.js.errors.NoStreamResponseError:
                with contextlib.suppress(BusUnavailable, TimeoutError):
                    async with asyncio.timeout_at(end):
                        await self.provision()
            except nats.js.errors.APIError as error:
                if error.err_code in _WRONG_LAST:
                    raise FeedConflict(int(stated.get("Nats-Expected-Last-Sequence", "0"))) from error
                if error.err_code != _IN_PROCESS:
                    raise BusUnavailable(f"JetStream refused: {error.description}") from error
            except BusUnavailable:
                self._log.debug("publish_repeated", subject=subject)
            else:
                self._connection.record_stored()
                return stored.seq
            await asyncio.sleep(_RETRY_SECONDS)
        await self._connection.record_unstored(seconds)
        raise BusUnavailable(f"no acknowledgement on {subject}")

    async def provision(self) -> None:
        """Create missing streams and consumers and restore our settings of existing ones (`stream_settings`).

        A user without the right to do that leaves it to the provisioner.
        """
        if nats_users.may_provision(self._connection.user):
            await self._ask(
                "to provision the streams",
                partial(stream_settings.provision, self._context, self._replicas),
                seconds=_PROVISION_SECONDS,
            )

    async def count_entities(self, *, seconds: float = API_SECONDS) -> tuple[int, int]:
        """Return the numbers of streams and of consumers."""
        found = await self._ask("the account's state", self._context.account_info, seconds=seconds)
        return found.streams, found.consumers

    async def get_stream_state(self, stream: str) -> tuple[int, int]:
        """Return the sequence of the last message ever stored in `stream`, and how many messages it holds."""
        state = (await self._ask(stream, partial(self._context.stream_info, stream))).state
        return state.last_seq, state.messages

    async def get_last_message(self, stream: str, subject: str) -> StoredMessage | None:
        """Return the newest message on `subject` (wildcards allowed) in `stream`."""
        return await self._fetch_one(stream, {"last_by_subj": subject})

    async def get_message(self, stream: str, sequence: int) -> StoredMessage | None:
        """Return the message with this sequence; None if the stream does not hold it."""
        return await self._fetch_one(stream, {"seq": sequence})

    async def get_consumer_state(self, stream: str) -> ConsumerState:
        """Return the state of a stream's one durable consumer."""
        subject = f"$JS.API.CONSUMER.INFO.{stream}.{stream_settings.CONSUMERS[stream]}"
        try:
            reply = await self._connection.request(subject, b"", seconds=API_SECONDS)
            return msgspec.json.decode(reply.data, type=ConsumerState)
        except (nats.errors.NoRespondersError, msgspec.ValidationError) as error:
            raise BusUnavailable(f"{stream} has no consumer") from error

    async def delete(self, stream: str, sequence: int) -> None:
        """Remove and overwrite one message. A missing message is not an error.

        That costs the server 10 ms, since it reads the whole block (up to 8 MB).
        """
        try:
            await self._ask(
                f"to delete a message of {stream}", partial(self._context.delete_msg, stream, sequence)
            )
        except BusUnavailable:
            if await self.get_message(stream, sequence) is not None:
                raise

    async def purge(self, stream: str, subject: str) -> None:
        """Remove the messages on `subject`, without overwriting them."""
        await self._ask(f"to purge {subject}", partial(self._context.purge_stream, stream, subject=subject))

    async def get_next_message(self, stream: str, subject: str, start: int) -> StoredMessage | None:
        """Return the first message on `subject` (wildcards allowed) from sequence `start` on."""
        return await self._fetch_one(stream, {"seq": start, "next_by_subj": subject})

    async def read_messages(self, stream: str, subject: str, start: int = 1) -> AsyncIterator[StoredMessage]:
        """Yield the messages on `subject` (wildcards allowed) from sequence `start` on, oldest first.

        Needs nats-server 2.11.
        """
        while True:
            batch, more = await self._fetch_batch(stream, subject, start)
            for message in batch:
                yield message
            if not batch or not more:
                return
            start = batch[-1].sequence + 1

    async def _fetch_batch(self, stream: str, subject: str, start: int) -> tuple[list[StoredMessage], bool]:
        """Return up to a thousand messages from sequence `start` on and whether more follow; one request."""
        got: list[StoredMessage] = []
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def receive(message: Msg) -> None:
            status = (message.headers or {}).get(Header.STATUS)
            if status is None:
                got.append(_to_stored_message(message))
            elif not ended.done():
                ended.set_result(status)

        client = self._connection.client
        inbox = client.new_inbox()
        subscription = await self._connection.subscribe(inbox, receive)
        request = {"seq": start, "next_by_subj": subject, "batch": _BATCH}
        try:
            async with asyncio.timeout(API_SECONDS):
                await self._connection.wait_up()
                await client.publish(f"$JS.API.DIRECT.GET.{stream}", msgspec.json.encode(request), inbox)
                status = await ended
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise BusUnavailable(f"{stream} cannot be read") from error
        finally:
            await self._connection.unsubscribe(subscription)
        if status not in (_END_OF_BATCH, _NOT_FOUND):
            raise BusUnavailable(f"{stream} cannot be read: status {status}")
        return got, status == _END_OF_BATCH and len(got) > 0 and _count_pending(got[-1]) > 0

    async def _fetch_one(self, stream: str, body: dict[str, Any]) -> StoredMessage | None:
        try:
            reply = await self._connection.request(
                f"$JS.API.DIRECT.GET.{stream}", msgspec.json.encode(body), seconds=API_SECONDS
            )
        except nats.errors.NoRespondersError as error:
            raise BusUnavailable(f"{stream} is not there") from error
        found = reply.headers or {}
        status = found.get(Header.STATUS)
        if status is None:
            return _to_stored_message(reply)
        if status == _NOT_FOUND:
            return None
        raise BusUnavailable(f"{stream} cannot be read: {status} {found.get(Header.DESCRIPTION)}")

    async def _ask(self, what: str, work: Callable[[], Awaitable[T]], *, seconds: float = API_SECONDS) -> T:
        try:
            return await self._connection.call(what, work, seconds=seconds)
        except nats.js.errors.APIError as error:
            raise BusUnavailable(f"JetStream refused {what}: {error.description}") from error


_BATCH = 1000
_END_OF_BATCH = "204"
_NOT_FOUND = "404"


def _to_stored_message(message: Msg) -> StoredMessage:
    found = message.headers or {}
    return StoredMessage(found["Nats-Subject"], int(found["Nats-Sequence"]), found, message.data)


def _count_pending(message: StoredMessage) -> int:
    return int(message.headers.get("Nats-Num-Pending", "0"))
