"""One connection to NATS that reconnects for ever, and reports when it is up, back or lost."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TypeVar
from urllib.parse import parse_qs, urlsplit

import nats.errors
import nats.js.errors
from nats.aio.msg import Msg

from bus import users
from bus.client import PENDING_BYTES, DirectClient
from bus.errors import BusUnavailable
from runtime import logs
from runtime.settings import SettingsError

CONNECT_SECONDS = 30.0
RECONNECT_SECONDS = 0.25
# A stopped server is noticed after three intervals at most (docs/change/reliability.md NATS).
PING_SECONDS = 2
PINGS_UNANSWERED = 2
_WATCH_SECONDS = 2.0
_SILENT_LOOKS = 5
"""An attempt to connect takes 6 s at most, and reports its error."""

_ANSWERS = (nats.errors.NoRespondersError, nats.js.errors.NoStreamResponseError, nats.js.errors.APIError)

T = TypeVar("T")


class Connection:
    """The client, whether it is connected, and the listeners for when it is connected again."""

    def __init__(self, on_lost: Callable[[], None] | None) -> None:
        self.client = DirectClient()
        self.user: str | None = None
        self._last_error: Exception | None = None
        self._shows_life = False
        self.up = asyncio.Event()
        self._on_lost = on_lost
        self._closing = False
        self._listeners: set[Callable[[], None]] = set()
        self._log = logs.get_logger("bus")

    async def open(self, url: str, name: str, tls: ssl.SSLContext | None) -> None:
        """Connect, trying for `CONNECT_SECONDS`; `tls` is that of `tls_context`. Raises BusUnavailable."""
        self.user = users.user_of(url)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self.client.connect(
                    [server.strip().partition("?")[0] for server in url.split(",")],
                    name=name,
                    tls=tls,
                    # Else a server that offers no TLS would be sent the password in the clear.
                    tls_handshake_first=tls is not None,
                    inbox_prefix=users.inbox_prefix(self.user),
                    error_cb=self._failed,
                    disconnected_cb=self._disconnected,
                    reconnected_cb=self._reconnected,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=RECONNECT_SECONDS,  # type: ignore[arg-type]  # slept on as it is
                    ping_interval=PING_SECONDS,
                    max_outstanding_pings=PINGS_UNANSWERED,
                    pending_size=PENDING_BYTES,
                    flush_timeout=1.0,
                    skip_subject_validation=True,  # they are our own
                )
        except TimeoutError as error:
            reason = f": {self._last_error}" if self._last_error else ""
            raise BusUnavailable(f"no NATS server in {CONNECT_SECONDS:.0f} s{reason}") from error
        self.up.set()

    async def close(self) -> None:
        """Send what waits (as far as the server reads it) and disconnect."""
        self._closing = True
        with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
            async with asyncio.timeout(2.0):
                await self.client.close()

    async def call(self, what: str, work: Callable[[], Awaitable[T]], *, seconds: float) -> T:
        """The result of `work`, a call of the client, begun when that is connected.

        Raises what the server answered (NoRespondersError, NoStreamResponseError, APIError), and
        BusUnavailable for all else.
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
        """One request and its reply. Raises NoRespondersError, and BusUnavailable for all else."""
        given = dict(headers) if headers else None
        return await self.call(
            subject,
            lambda: self.client.request(subject, payload, timeout=seconds, headers=given),
            seconds=seconds,
        )

    async def publish(
        self, subject: str, payload: bytes, *, headers: Mapping[str, str] | None = None, reply: str = ""
    ) -> None:
        """Publish without an acknowledgement; while disconnected it waits in the buffer.

        Raises BusUnavailable when the buffer is full.
        """
        try:
            await self.client.publish(subject, payload, reply, dict(headers) if headers else None)
        except (nats.errors.Error, OSError) as error:
            raise BusUnavailable(f"cannot publish on {subject}: {error}") from error

    async def wait_up(self) -> None:
        while not self.client.is_connected:
            self.up.clear()
            await self.up.wait()

    def add_listener(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` each time the connection is back, until what is returned is called."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    async def watch(self) -> None:
        """Report the client lost when it will not reconnect by itself (docs/change/reliability.md NATS)."""
        silent = 0
        while silent < _SILENT_LOOKS and not self.client.is_closed:
            self._shows_life = False
            await asyncio.sleep(_WATCH_SECONDS)
            silent = silent + 1 if self.client.is_reconnecting and not self._shows_life else 0
        self._log.error("nats_lost")
        if self._on_lost is not None:
            self._on_lost()

    async def _failed(self, error: Exception) -> None:
        self._last_error, self._shows_life = error, True
        refused = "permissions violation" in str(error).lower()
        (self._log.error if refused else self._log.debug)("nats_error", error=repr(error))

    async def _disconnected(self) -> None:
        self.up.clear()
        if not self._closing:
            self._log.warning("nats_disconnected")

    async def _reconnected(self) -> None:
        self.up.set()
        self._log.info("nats_reconnected")
        for listener in tuple(self._listeners):
            listener()


def tls_context(url: str) -> ssl.SSLContext | None:
    """What trusts the authority that an address names (`tls://nats-1:4222?ca=FILE`); None where none does.

    The first server's is that of all. Servers need `handshake_first: auto` (or `true`) in their `tls` block.
    Raises SettingsError where the file has no certificate, and for any other parameter: it would be ignored.
    """
    query = parse_qs(urlsplit(url.partition(",")[0].strip()).query, keep_blank_values=True)
    if unknown := query.keys() - {"ca"}:
        raise SettingsError(f"the address of NATS has a parameter that is not known: {min(unknown)}")
    if "ca" not in query:
        return None
    file = query["ca"][-1]
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as error:  # ssl.SSLError is one
        reason = "it has no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise SettingsError(f"the address of NATS names ca={file}, which cannot be used: {reason}") from None


@contextlib.asynccontextmanager
async def connect(
    url: str, name: str, on_lost: Callable[[], None] | None = None
) -> AsyncIterator[Connection]:
    """A connection for the length of the block; `url` may be a comma list of servers.

    Raises BusUnavailable, and SettingsError as `tls_context` does.
    """
    tls = tls_context(url)
    connection = Connection(on_lost)
    try:
        await connection.open(url, name, tls)
        watcher = asyncio.create_task(connection.watch())
        try:
            yield connection
        finally:
            watcher.cancel()
    finally:
        await connection.close()
