"""`agentchat status`: what runs in the run folder, and how it is."""

import asyncio
import time

from ops import environment, record
from ops.admin import show
from ops.errors import NotRunningError
from ops.probes import reason_unready
from ops.record import Entry


def status() -> bool:
    """Print a line for each process; whether all are ready. Raises NotRunningError."""
    folder = environment.run_folder()
    kept = record.read(folder.processes) if folder.in_use() else None
    if kept is None:
        raise NotRunningError(f"nothing runs in {folder.path}")
    entries = [entry for entry in kept.processes if entry.probe is not None]
    reasons = asyncio.run(_ask(entries))
    now = time.time()
    rows = [
        [
            entry.name,
            str(entry.pid or ""),
            f"{now - entry.started_at:.0f} s" if entry.pid else "",
            entry.restarts,
            reason or "ready",
        ]
        for entry, reason in zip(entries, reasons, strict=True)
    ]
    show.table(["PROCESS", "PID", "UP", "RESTARTS", "STATE"], rows)
    return not any(reasons)


async def _ask(entries: list[Entry]) -> list[str | None]:
    return list(await asyncio.gather(*map(_reason, entries)))


async def _reason(entry: Entry) -> str | None:
    if entry.pid is None or entry.probe is None:
        return "down; it is started again"
    return await reason_unready(entry.probe)
