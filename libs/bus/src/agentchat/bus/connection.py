"""Keep one connection to NATS that reconnects for ever, and report when it is up, back or lost."""

import asyncio
import contextlib
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TypeVar

import msgspec
import nats.errors
import nats.js.errors
from nats.aio.client import Client, Server
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from agentchat.bus import nats_users
from agentchat.bus.errors import BusUnavailable
from agentchat.bus.nats_url import create_tls_context, parse_servers
from agentchat.runtime import logs

CONNECT_SECONDS = 30.0
RECONNECT_SECONDS = 0.25
# A stopped server is noticed after at most three intervals (docs/change/reliability.md NATS).
PING_SECONDS = 2
PINGS_UNANSWERED = 2
_WATCH_SECONDS = 2.0
_SILENT_LOOKS = 5
"""An attempt to connect takes at most 6 s and reports its error, so five looks without an error mean lost."""
_ASK_SECONDS = 1.5
_ALONE_SECONDS = 10.0
"""Longer than a cluster needs to elect a leader (4 to 9 s)."""
_LEADERLESS_SECONDS = 3.0
"""Longer than the votes of an election take, before which peers do not answer."""
_UNSTORED_SECONDS = 4.0
"""May fall within an election; another node is no worse then."""

PENDING_BYTES = 2 * 1024 * 1024
"""The most that may wait to be sent, or for a connection."""
LARGEST_MESSAGE_BYTES = 9 * 1024 * 1024
"""Room in nats-py's buffer for one more message: servers accept 8 MiB (`deploy`) and some headers."""
HEADER_BYTES = 4096
"""Left for a message's headers, which count towards the size that the server accepts."""

Receive = Callable[[Msg], None]
"""Receives a message on the loop; must not block."""

_ANSWERS = (nats.errors.NoRespondersError, nats.js.errors.NoStreamResponseError, nats.js.errors.APIError)

T = TypeVar("T")


class _Answer(msgspec.Struct):
    """An answer of JetStream's API, which has an error if there is no leader to ask."""

    error: dict[str, object] | None = None


class _Receiver(asyncio.Future[Msg]):
    """Call a function with each message that nats-py would complete this future with; it never completes.

    A message is received as it is read from the socket, without a queue and a task for each subscription.
    That takes two thirds of the CPU time (decision 94).
    """

    def __init__(self, receive: Receive) -> None:
        super().__init__()
        self._receive = receive

    def set_result(self, message: Msg) -> None:
        try:
            self._receive(message)
        except Exception:  # noqa: BLE001 - it would end the read loop of all subscriptions
            logs.get_logger("bus").exception("receiver_failed", subject=message.subject)


class Connection:
    """The NATS client, whether it is connected, and listeners for its reconnects."""

    def __init__(self, on_lost: Callable[[], None] | None) -> None:
        self.client = Client()
        self.user: str | None = None
        self._last_error: Exception | None = None
        self._shows_life = False
        self._tried = ""
        """The host and port of the server that was connected or tried last."""
        self._tries = 0
        self._left_at = -_ALONE_SECONDS
        self._unstored_since: float | None = None
        self.up = asyncio.Event()
        self._on_lost = on_lost
        self._closing = False
        self._listeners: set[Callable[[], None]] = set()
        self._log = logs.get_logger("bus")

    async def open(self, url: str, name: str, tls: ssl.SSLContext | None) -> None:
        """Connect, trying for `CONNECT_SECONDS`; `tls` is the result of `create_tls_context`.

        Raises:
            BusUnavailable: No server answered.
            SettingsError: As `parse_servers`.
        """
        self.user = nats_users.parse_user(url)
        servers = parse_servers(url)
        random.shuffle(servers)  # only here: nats-py would shuffle them at each reconnect
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self.client.connect(
                    servers,
                    dont_randomize=True,
                    name=name,
                    tls=tls,
                    # Otherwise a server without TLS would get the password in the clear.
                    tls_handshake_first=tls is not None,
                    inbox_prefix=nats_users.get_inbox_prefix(self.user),
                    error_cb=self._on_error,
                    disconnected_cb=self._on_disconnected,
                    reconnected_cb=self._on_reconnected,
                    reconnect_to_server_handler=self._choose_server,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=RECONNECT_SECONDS,  # type: ignore[arg-type]  # nats-py sleeps for it
                    ping_interval=PING_SECONDS,
                    max_outstanding_pings=PINGS_UNANSWERED,
                    pending_size=PENDING_BYTES + LARGEST_MESSAGE_BYTES,
                    flush_timeout=1.0,
                    skip_subject_validation=True,  # they are our own
                )
        except TimeoutError as error:
            reason = f": {self._last_error}" if self._last_error else ""
            raise BusUnavailable(f"no NATS server in {CONNECT_SECONDS:.0f} s{reason}") from error
        self._record_connected()

    def _record_connected(self) -> None:
        url = self.client.connected_url
        self._tried, self._tries = url.netloc if url else "", 0
        self.up.set()

    def _choose_server(self, servers: list[Server], _info: object) -> tuple[Server, float]:
        """Return the server after the lost one, and so on: all of them at once, then with pauses."""
        names = [server.uri.netloc for server in servers]
        found = servers[(names.index(self._tried) + 1) % len(servers) if self._tried in names else 0]
        self._tried, self._tries = found.uri.netloc, self._tries + 1
        return found, RECONNECT_SECONDS if self._tries > len(servers) else 0.0

    async def close(self) -> None:
        """Send what waits, as far as the server reads it, and disconnect."""
        self._closing = True
        with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
            async with asyncio.timeout(2.0):
                await self.client.close()

    async def call(self, what: str, work: Callable[[], Awaitable[T]], *, seconds: float) -> T:
        """Return the result of `work`, a call of the client, started once that is connected.

        Raises:
            NoRespondersError, NoStreamResponseError, APIError: The server answered so.
            BusUnavailable: Anything else went wrong.
        """
        try:
            async with asyncio.timeout(seconds):
                await self.wait_up()
                return await work()
        except _ANSWERS:
            raise
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise BusUnavailable(f"no answer on {what}: {error}") from error

    async def request(
        self, subject: str, payload: bytes, *, seconds: float, headers: Mapping[str, str] | None = None
    ) -> Msg:
        """Send one request and return its reply.

        Raises NoRespondersError, or BusUnavailable for anything else.
        """
        given = dict(headers) if headers else None
        return await self.call(
            subject,
            lambda: self.client.request(subject, payload, timeout=seconds, headers=given),
            seconds=seconds,
        )

    async def publish(
        self, subject: str, payload: bytes, *, headers: Mapping[str, str] | None = None, reply: str = ""
    ) -> None:
        """Publish without an acknowledgement; while disconnected, the message waits in the buffer.

        Raises:
            BusUnavailable: The buffer is full.
        """
        try:
            await self.client.publish(subject, payload, reply, dict(headers) if headers else None)
        except (nats.errors.Error, OSError) as error:
            raise BusUnavailable(f"cannot publish on {subject}: {error}") from error

    @property
    def message_room(self) -> int:
        """Bytes that the server accepts as one message, besides its headers."""
        return self.client.max_payload - HEADER_BYTES

    async def publish_now(
        self, subject: str, payload: bytes, *, headers: Mapping[str, str] | None = None
    ) -> bool:
        """Publish without waiting; return False, with nothing sent, if there is no room.

        One message may be larger than PENDING_BYTES, such as the end of a run with a long reply.
        """
        too_large = len(payload) > min(self.message_room, LARGEST_MESSAGE_BYTES - HEADER_BYTES)
        if too_large or self.client.pending_data_size > PENDING_BYTES:
            return False
        try:
            await self.client.publish(subject, payload, headers=dict(headers) if headers else None)
        except nats.errors.Error:
            return False
        return True

    async def subscribe(self, subject: str, receive: Receive, queue: str = "") -> Subscription:
        """Subscribe; `receive` is called for each message as it is read from the socket.

        The server knows of the subscription before it gets anything published after this. Raises
        BusUnavailable.
        """
        try:
            return await self.client.subscribe(subject, queue, future=_Receiver(receive))
        except nats.errors.Error as error:
            raise BusUnavailable(f"cannot follow {subject}") from error

    async def flush(self) -> None:
        """Wait until the server has read what was sent, for a second at most if it is away."""
        with contextlib.suppress(nats.errors.Error):
            await self.client.flush(1)

    async def unsubscribe(self, subscription: Subscription) -> None:
        """Stop receiving from the moment of this call. Never raises."""
        with contextlib.suppress(nats.errors.Error):
            await subscription.unsubscribe()

    async def wait_up(self) -> None:
        """Wait until the client is connected."""
        while not self.client.is_connected:
            self.up.clear()
            await self.up.wait()

    def add_listener(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after each reconnect, until the returned function is called."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    async def watch(self) -> None:
        """Report the connection lost once it stops reconnecting (docs/change/reliability.md NATS)."""
        silent = 0
        while silent < _SILENT_LOOKS and not self.client.is_closed:
            self._shows_life = False
            await asyncio.sleep(_WATCH_SECONDS)
            silent = silent + 1 if self.client.is_reconnecting and not self._shows_life else 0
        self._log.error("nats_lost")
        if self._on_lost is not None:
            self._on_lost()

    async def watch_node(self) -> None:
        """Switch to another server when this one has no quorum.

        A node that its peers cannot reach keeps its clients but can store nothing for them. One that has led
        the cluster answers for 10 s as if it still did; then only publications fail (`record_unstored`).
        """
        loop = asyncio.get_running_loop()
        led_at, leaderless_since = loop.time(), 0.0
        while len(self.client.servers) > 1:
            await asyncio.sleep(_WATCH_SECONDS)
            has_leader = await self._has_leader() if self.client.is_connected else True
            now = loop.time()
            if has_leader:
                led_at, leaderless_since = now, 0.0
            elif has_leader is False:
                leaderless_since = leaderless_since or now
            if now - led_at >= _ALONE_SECONDS or 0 < leaderless_since <= now - _LEADERLESS_SECONDS:
                await self._leave()

    async def _has_leader(self) -> bool | None:
        """Return True if this node knows the cluster's leader; None if it does not answer."""
        try:
            reply = await self.client.request("$JS.API.INFO", timeout=_ASK_SECONDS)
        except (nats.errors.Error, OSError, TimeoutError):
            return None
        return msgspec.json.decode(reply.data, type=_Answer).error is None

    def record_stored(self) -> None:
        """Record that a publication was acknowledged."""
        self._unstored_since = None

    async def record_unstored(self, seconds: float) -> None:
        """Record that a publication was not acknowledged within `seconds`; after a while, switch servers."""
        now = asyncio.get_running_loop().time()
        since = self._unstored_since = self._unstored_since or now - seconds
        if now - since >= _UNSTORED_SECONDS and len(self.client.servers) > 1:
            await self._leave()

    async def _leave(self) -> None:
        """Switch to another server, at most once in a while: perhaps no server has a quorum."""
        now = asyncio.get_running_loop().time()
        if now - self._left_at >= _ALONE_SECONDS and self.client.is_connected:
            self._left_at = now
            self._unstored_since = None
            self._log.warning("nats_without_quorum")
            await self.client.force_reconnect()

    async def _on_error(self, error: Exception) -> None:
        self._last_error, self._shows_life = error, True
        refused = "permissions violation" in str(error).lower()
        (self._log.error if refused else self._log.debug)("nats_error", error=repr(error))

    async def _on_disconnected(self) -> None:
        self.up.clear()
        if not self._closing:
            self._log.warning("nats_disconnected")

    async def _on_reconnected(self) -> None:
        self._record_connected()
        self._log.info("nats_reconnected")
        for listener in tuple(self._listeners):
            listener()


@contextlib.asynccontextmanager
async def connect(
    url: str, name: str, on_lost: Callable[[], None] | None = None
) -> AsyncIterator[Connection]:
    """Open a connection for the block; `url` may be a comma-separated list of servers.

    Raises:
        BusUnavailable: No server answered.
        SettingsError: As `create_tls_context`.
    """
    tls = create_tls_context(url)
    connection = Connection(on_lost)
    try:
        await connection.open(url, name, tls)
        watchers = [asyncio.create_task(work) for work in (connection.watch(), connection.watch_node())]
        try:
            yield connection
        finally:
            for watcher in watchers:
                watcher.cancel()
    finally:
        await connection.close()
