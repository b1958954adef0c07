"""Whether a process is ready, checked over its own protocol. Probes are data, stored in the run folder.

`check` tries once and raises one of NOT_READY; the caller repeats it.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from ops.ports import LOOPBACK

PROBE_SECONDS = 3.0
UNHEALTHY_SECONDS = 3.0
_HEALTH_SECONDS = 1.0
_Pair: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class UnreadyError(Exception):
    """The process answers that it is not ready; the text is its reason."""


class HttpProbe(msgspec.Struct, frozen=True, tag="http"):
    """GET `path` answers 200."""

    port: int
    path: str = "/readyz"
    host: str = LOOPBACK

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{self.path}"

    async def check(self) -> None:
        async with _connected(self.host, self.port) as (reader, writer):
            head = (f"GET {self.path} HTTP/1.1", f"Host: {self.host}:{self.port}", "Connection: close")
            writer.write("\r\n".join((*head, "", "")).encode())
            status = (await reader.readline()).decode(errors="replace").strip()
            if " 200" not in status:
                _, _, body = (await reader.read()).partition(b"\r\n\r\n")
                raise UnreadyError(body[:300].decode(errors="replace") or status or "no answer")


class NatsProbe(msgspec.Struct, frozen=True, tag="nats"):
    """The server sends INFO and has JetStream (NATS client protocol)."""

    port: int

    async def check(self) -> None:
        async with _connected(LOOPBACK, self.port) as (reader, _):
            greeting = await reader.readline()
            if not greeting.startswith(b"INFO ") or b'"jetstream":true' not in greeting:
                raise UnreadyError("no JetStream")


class ValkeyProbe(msgspec.Struct, frozen=True, tag="valkey"):
    """PING is answered by PONG (RESP), or by the error that a login is required."""

    port: int

    async def check(self) -> None:
        async with _connected(LOOPBACK, self.port) as (reader, writer):
            writer.write(b"PING\r\n")
            answer = await reader.readline()
            if answer != b"+PONG\r\n" and not answer.startswith(b"-NOAUTH "):
                raise UnreadyError(answer.decode(errors="replace").strip())


class PostgresProbe(msgspec.Struct, frozen=True, tag="postgres"):
    """A start-up message is answered by a request to authenticate: the server takes sessions.

    While it recovers or stops it answers with an error (Postgres frontend/backend protocol, version 3.0), and
    logs that. So it is connected to only when its `pid_file` contains "ready", as pg_ctl does.
    """

    port: int
    user: str
    database: str
    pid_file: str

    async def check(self) -> None:
        if not self._is_open():
            raise UnreadyError("does not take sessions yet")
        body = b"\0\x03\0\0"
        for word in ("user", self.user, "database", self.database, ""):
            body += word.encode() + b"\0"
        async with _connected(LOOPBACK, self.port) as (reader, writer):
            writer.write((len(body) + 4).to_bytes(4, "big") + body)
            kind = await reader.read(1)
            if kind != b"R":
                raise UnreadyError("does not take sessions yet")

    def _is_open(self) -> bool:
        """The last word of the file is the state; without a file there is no server."""
        with contextlib.suppress(FileNotFoundError):
            return Path(self.pid_file).read_text().split()[-1:] == ["ready"]
        return False


Probe: TypeAlias = HttpProbe | NatsProbe | ValkeyProbe | PostgresProbe

NOT_READY = (UnreadyError, OSError, EOFError, TimeoutError)
"""What `check` raises of a process that is not ready."""


async def wait_ready(probe: Probe) -> None:
    """Return when the probe passes. Waits for ever: the caller sets the bound."""
    pause = 0.01
    while True:
        with contextlib.suppress(*NOT_READY):
            return await probe.check()
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.05)


async def wait_unhealthy(probe: Probe) -> str:
    """Return why, when every answer within UNHEALTHY_SECONDS was that the process is unhealthy.

    No answer counts as healthy: a process that is stopped, or gets no processor time, may be healthy.
    """
    healthy_at = time.monotonic()
    while True:
        await asyncio.sleep(_HEALTH_SECONDS)
        try:
            await probe.check()
            healthy_at = time.monotonic()
        except UnreadyError as error:
            if time.monotonic() - healthy_at >= UNHEALTHY_SECONDS:
                return str(error)
        except NOT_READY:
            healthy_at = time.monotonic()


async def reason_unready(probe: Probe) -> str | None:
    """Why the process is not ready; None where it is."""
    try:
        await probe.check()
    except NOT_READY as error:
        return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else "no answer")
    return None


class _Readiness(msgspec.Struct):
    """What `/readyz` answers."""

    checks: dict[str, str] = {}


def failing_checks(reason: str) -> str:
    """The failed checks of an answer of `/readyz`; another reason unchanged."""
    try:
        checks = msgspec.json.decode(reason, type=_Readiness).checks
    except msgspec.DecodeError:
        return reason
    return ", ".join(f"{name}: {result}" for name, result in checks.items() if result != "ok") or reason


@contextlib.asynccontextmanager
async def _connected(host: str, port: int) -> AsyncIterator[_Pair]:
    async with asyncio.timeout(PROBE_SECONDS):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            yield reader, writer
        finally:
            writer.close()
