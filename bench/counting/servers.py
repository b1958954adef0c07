"""What NATS and Valkey say of themselves, and the files of `inside/sitecustomize.py`, as counters."""

import asyncio
import json
import struct
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from bench.counting.inside.sitecustomize import NAMES
from ops.ports import LOOPBACK

_SCRIPTS = ("evalsha", "eval", "fcall")
_OURS = ("info", "ping")


def nats_monitor(pid: int) -> str:
    """The address of a NATS server's monitor."""
    line = psutil.Process(pid).cmdline()
    return f"http://{LOOPBACK}:{line[line.index('-m') + 1]}"


async def nats_counts(monitor: str) -> dict[str, int]:
    """Messages that clients sent, that they were sent, and that streams stored, by stream."""
    about, streams = await asyncio.gather(
        *(asyncio.to_thread(_json, f"{monitor}/{page}") for page in ("varz", "jsz?streams=1&accounts=1"))
    )
    stored = {
        f"nats.stored.{stream['name']}": int(stream["state"]["last_seq"])
        for account in streams["account_details"]
        for stream in account["stream_detail"]
    }
    return {"nats.sent": about["in_msgs"], "nats.delivered": about["out_msgs"], **stored}


def _json(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


async def valkey_counts(url: str) -> dict[str, int]:
    """Scripts that were called, and all other commands, those within scripts too (`INFO commandstats`)."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        writer.write(b"INFO commandstats\r\n")
        length = int((await reader.readline())[1:])
        text = (await reader.readexactly(length)).decode()
    finally:
        writer.close()
    lines = (line.removeprefix("cmdstat_").partition(":calls=") for line in text.splitlines())
    calls = {name: int(rest.partition(",")[0]) for name, found, rest in lines if found}
    scripts = sum(calls.get(name, 0) for name in _SCRIPTS)
    others = sum(count for name, count in calls.items() if name not in (*_SCRIPTS, *_OURS))
    return {"redis.scripts": scripts, "redis.commands": others}


def loop_counts(folder: Path) -> dict[str, int]:
    """Uses of the event loop by service, of processes whose names end with a number."""
    counts: dict[str, int] = {}
    for path in folder.iterdir():
        service, _, number = path.name.rpartition("-")
        if number.isdecimal():
            numbers = struct.unpack(f"{len(NAMES)}Q", path.read_bytes())
            counts |= {
                f"{name}.{service}": count for name, count in zip(NAMES.values(), numbers, strict=True)
            }
    return counts
