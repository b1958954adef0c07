"""`agentchat status`: what runs in the run folder, and how it is."""

import asyncio
import sys
import time

import msgspec

from ops import environment, record
from ops.errors import NotRunningError
from ops.probes import reason_unready
from ops.record import Entry


class Line(msgspec.Struct, frozen=True):
    """One process; `unready` says why it is not ready."""

    entry: Entry
    unready: str | None


def status() -> bool:
    """Print a line for each process; whether all are ready. Raises NotRunningError."""
    folder = environment.run_folder()
    kept = record.read(folder.processes) if folder.in_use() else None
    if kept is None:
        raise NotRunningError(f"nothing runs in {folder.path}")
    lines = asyncio.run(_ask(kept))
    now = time.time()
    rows = [("PROCESS", "PID", "UP", "RESTARTS", "STATE")]
    for line in lines:
        entry = line.entry
        up = f"{now - entry.started_at:.0f} s" if entry.pid else ""
        rows.append((entry.name, str(entry.pid or ""), up, str(entry.restarts), line.unready or "ready"))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        text = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write(text.rstrip() + "\n")
    return all(line.unready is None for line in lines)


async def _ask(kept: record.Record) -> list[Line]:
    entries = [entry for entry in kept.processes if entry.probe is not None]
    reasons = await asyncio.gather(*map(_reason, entries))
    return [Line(entry, reason) for entry, reason in zip(entries, reasons, strict=True)]


async def _reason(entry: Entry) -> str | None:
    if entry.pid is None or entry.probe is None:
        return "down; it is started again"
    return await reason_unready(entry.probe)
