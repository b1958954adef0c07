"""The processes of the running stack, each asked whether it is ready."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Literal

import msgspec

from ops.probes import reason_unready
from ops.record import Entry

State = Literal["ready", "not ready", "down"]


class ServiceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A process. `version` is the one that was started; `reason` says why it is not ready.

    `health_url` is None for servers that have no HTTP. `started_at` (ISO 8601, UTC) and `up_seconds` are None
    while it is down.
    """

    name: str
    pid: int | None
    health_url: str | None
    version: str
    state: State
    reason: str | None
    started_at: str | None
    up_seconds: float | None
    restarts: int
    log: str


async def ask(entries: list[Entry]) -> list[ServiceStatus]:
    """All at once; takes as long as a probe may at most."""
    return list(await asyncio.gather(*map(_status, entries)))


async def _status(entry: Entry) -> ServiceStatus:
    state: State = "down"
    reason: str | None = "it is started again"
    if entry.pid is not None and entry.probe is not None:
        reason = await reason_unready(entry.probe)
        state = "ready" if reason is None else "not ready"
    runs = entry.pid is not None
    started_at = datetime.fromtimestamp(entry.started_at, UTC).isoformat(timespec="seconds")
    return ServiceStatus(
        name=entry.name,
        pid=entry.pid,
        health_url=entry.health_url,
        version=entry.version,
        state=state,
        reason=None if reason is None else _failing(reason),
        started_at=started_at if runs else None,
        up_seconds=round(time.time() - entry.started_at, 1) if runs else None,
        restarts=entry.restarts,
        log=entry.log,
    )


class _Readiness(msgspec.Struct):
    """What `/readyz` answers."""

    checks: dict[str, str] = {}


def _failing(reason: str) -> str:
    """Of an answer of `/readyz` the checks that fail; another reason as it is."""
    try:
        checks = msgspec.json.decode(reason, type=_Readiness).checks
    except msgspec.DecodeError:
        return reason
    return ", ".join(f"{name}: {result}" for name, result in checks.items() if result != "ok") or reason
