"""A stack whose every statement, message, command and task is counted, and its counters."""

import asyncio
import contextlib
import json
import os
import re
import signal
import struct
import tempfile
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import psutil

from agentchat.ops.free_ports import LOOPBACK, find_free_port
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.servers import valkey
from agentchat.ops.stack_report import QuietReport
from agentchat.ops.supervisor import Supervisor
from bench.processes import start_upstream
from tests.harness import RunningStack, running_stack

_INSIDE = Path(__file__).parent / "inside"


class Counted(msgspec.Struct, frozen=True):
    """A running stack, with counters of its work."""

    stack: RunningStack
    valkey_url: str
    loops: Path


@contextlib.asynccontextmanager
async def start_counted_stack() -> AsyncIterator[Counted]:
    """Up while the block runs, after some 8 s. Valkey is one without users, so that it may be asked."""
    async with start_upstream() as upstream, connect_valkey() as valkey_url:
        with tempfile.TemporaryDirectory(prefix="agentchat-") as loops:
            environ = {"AGENTCHAT_REDIS_URL": valkey_url, "PYTHONPATH": str(_INSIDE)}
            environ |= {"AGENTCHAT_BENCH_COUNTS": loops}
            environ |= {"ANTHROPIC_API_KEY": "lean", "ANTHROPIC_BASE_URL": upstream.url}
            async with running_stack(environ=environ) as stack:
                log_all(stack.folder)
                yield Counted(stack, valkey_url, Path(loops))


@contextlib.asynccontextmanager
async def connect_valkey() -> AsyncIterator[str]:
    with tempfile.TemporaryDirectory(prefix="agentchat-") as name:
        folder, port = RunFolder(Path(name)), find_free_port()
        folder.create()
        async with Supervisor(folder, [valkey.describe_process(folder, port)], QuietReport()) as supervisor:
            await supervisor.wait_up(30.0)
            yield valkey.build_url(port)


_SETTINGS = """
log_statement = 'all'
log_parameter_max_length = 0
log_min_messages = log
log_line_prefix = '@%u @%v @'
autovacuum = off
full_page_writes = off
checkpoint_timeout = 1h
"""
"""The last three keep what is not a chat's out of the WAL."""
_LINE = re.compile(
    r"^@agentchat_(\w+) @(\S+) @LOG:  (?:statement: |execute [^:]*: )(.*(?:\n\t.*)*)", re.MULTILINE
)


class Logged(msgspec.Struct):
    """Statements by service and text, and the transactions that they were in, by service."""

    statements: Counter[tuple[str, str]]
    transactions: Counter[str]


def log_all(folder: RunFolder) -> None:
    """Log all statements, from the next one of each session on, also of later connections."""
    with (folder.postgres / "postgresql.auto.conf").open("a") as settings:
        settings.write(_SETTINGS)
    os.kill(int((folder.postgres / "postmaster.pid").read_text().split()[0]), signal.SIGHUP)


class StatementLog:
    """The log of Postgres, read on from where it was read last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_to = path.stat().st_size

    def read_next(self) -> Logged:
        """Return the statements that were logged since the last call."""
        with self._path.open() as file:
            file.seek(self._read_to)
            text = file.read()
            self._read_to = file.tell()
        found = [(service, vxid, " ".join(words.split())) for service, vxid, words in _LINE.findall(text)]
        own = [each for each in found if each[0] != "operator" and not any(p in each[2] for p in _POLLED)]
        return Logged(
            Counter((service, words) for service, _, words in own),
            Counter(service for service, _ in {(service, vxid) for service, vxid, _ in own}),
        )


_POLLED = ("FROM pg_locks",)
"""Read several times a second, chats or not: on a busy machine a chat would seem to cost one."""
_SCRIPTS = ("evalsha", "eval", "fcall")
_OURS = ("info", "ping")


def find_nats_monitor(pid: int) -> str:
    """Return the address of a NATS server's monitor, from its command line."""
    line = psutil.Process(pid).cmdline()
    return f"http://{LOOPBACK}:{line[line.index('-m') + 1]}"


async def read_nats_counts(monitor: str) -> dict[str, int]:
    """Read how many messages clients sent and received, and how many each stream stored."""
    about, streams = await asyncio.gather(
        *(asyncio.to_thread(fetch_json, f"{monitor}/{page}") for page in ("varz", "jsz?streams=1&accounts=1"))
    )
    stored = {
        f"nats.stored.{stream['name']}": int(stream["state"]["last_seq"])
        for account in streams["account_details"]
        for stream in account["stream_detail"]
    }
    return {"nats.sent": about["in_msgs"], "nats.delivered": about["out_msgs"], **stored}


def fetch_json(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


async def read_valkey_counts(url: str) -> dict[str, int]:
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


def read_task_counts(folder: Path) -> dict[str, int]:
    """Read the tasks that were made, by service, of processes whose names end with a number."""
    return {
        f"tasks.{path.name.rpartition('-')[0]}": struct.unpack("Q", path.read_bytes())[0]
        for path in folder.iterdir()
        if path.name.rpartition("-")[2].isdecimal()
    }
