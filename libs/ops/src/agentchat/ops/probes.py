"""Check the readiness of processes by HTTP or TCP. Probes are data, stored in the run folder.

`check` tries once and raises one of NOT_READY; the caller repeats it.
"""

import asyncio
import contextlib
from pathlib import Path
from typing import TypeAlias

import msgspec

from agentchat.ops.free_ports import LOOPBACK

PROBE_SECONDS = 3.0


class UnreadyError(Exception):
    """The process is not ready; the text is its reason."""


class HttpProbe(msgspec.Struct, frozen=True, tag="http"):
    """A probe that passes if GET `path` answers 200."""

    port: int
    path: str = "/readyz"
    host: str = LOOPBACK

    @property
    def url(self) -> str:
        """The address that is probed."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{self.path}"

    async def check(self) -> None:
        """Probe once. Raises one of NOT_READY."""
        async with asyncio.timeout(PROBE_SECONDS):
            reader, writer = await asyncio.open_connection(self.host, self.port)
            with contextlib.closing(writer):
                head = (f"GET {self.path} HTTP/1.1", f"Host: {self.host}:{self.port}", "Connection: close")
                writer.write("\r\n".join((*head, "", "")).encode())
                status = (await reader.readline()).decode(errors="replace").strip()
                if " 200" not in status:
                    _, _, body = (await reader.read()).partition(b"\r\n\r\n")
                    raise UnreadyError(body[:300].decode(errors="replace") or status or "no answer")


class TcpProbe(msgspec.Struct, frozen=True, tag="tcp"):
    """A probe that passes if the port accepts connections and `ready_file` ends with "ready".

    `ready_file` is Postgres' postmaster.pid.
    """

    port: int
    ready_file: str | None = None

    async def check(self) -> None:
        """Probe once. Raises one of NOT_READY."""
        if not self._is_open():
            raise UnreadyError("does not accept sessions yet")
        async with asyncio.timeout(PROBE_SECONDS):
            _, writer = await asyncio.open_connection(LOOPBACK, self.port)
            writer.close()

    def _is_open(self) -> bool:
        return self.ready_file is None or Path(self.ready_file).read_text().split()[-1:] == ["ready"]


Probe: TypeAlias = HttpProbe | TcpProbe

NOT_READY = (UnreadyError, OSError, EOFError, TimeoutError)
"""Exceptions of `check` if a process is not ready."""


async def wait_ready(probe: Probe) -> None:
    """Wait until the probe passes, without a time limit: the caller sets it."""
    pause = 0.01
    while True:
        with contextlib.suppress(*NOT_READY):
            return await probe.check()
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.05)


async def find_unready_reason(probe: Probe) -> str | None:
    """Return why the process is not ready; None if it is."""
    try:
        await probe.check()
    except NOT_READY as error:
        return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else "no answer")
    return None


class _Readiness(msgspec.Struct):
    """The answer of `/readyz`."""

    checks: dict[str, str] = {}


def list_failing_checks(reason: str) -> str:
    """Return the failed checks in an answer of `/readyz`; return other reasons unchanged."""
    try:
        checks = msgspec.json.decode(reason, type=_Readiness).checks
    except msgspec.DecodeError:
        return reason
    return ", ".join(f"{name}: {result}" for name, result in checks.items() if result != "ok") or reason
