"""`python -m bench.replay [EVENTS]`: measures on embedded servers of its own; prints a table."""

import asyncio
import os
import random
import subprocess
import sys
import time

from rich.console import Console

from bench.replay import generate, lag, library_runner
from bench.report import Table
from bench.show import show
from bench.statistics import share
from contracts.ids import new_id
from conversations.event_store import mapper
from conversations.event_store.log import open_log
from conversations.event_store.store import open_store
from conversations.queries.time_travel import past_of
from ops.prepare import migrate
from tests.harness import embedded_servers

EVENTS = 1_000_000
_LIBRARY_EVENTS = 20_000
_LONG = 10_000
_LOOKS = 20


def main() -> None:
    """Takes some two minutes for a million events."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    asyncio.run(_main(Console(), count))


async def _main(console: Console, count: int) -> None:
    async with embedded_servers() as servers:
        url = servers.database_url
        await migrate(url)
        lags = await lag.lags(servers)
        await asyncio.to_thread(lag.emptied, url)
        _say(f"filling a log with {count:,} events")
        await asyncio.to_thread(generate.fill, url, count)
        _say(f"the eventsourcing library's runner on the first {_LIBRARY_EVENTS:,}")
        first = await _position(url, _LIBRARY_EVENTS)
        library = _LIBRARY_EVENTS / await asyncio.to_thread(library_runner.seconds_for, url, first)
        _say("rebuild, verify, time travel")
        rebuilt, memory = await asyncio.to_thread(_command, url, "rebuild")
        verified, verify_memory = await asyncio.to_thread(_command, url, "verify")
        travelled = await _time_travel(url)
    ours = count / rebuilt
    rows = [
        ("the library's runner", "", f"{library:,.0f} events/s"),
        ("replay rebuild, from start to end", "", f"{ours:,.0f} events/s"),
        ("times the library's", "≥ 20", f"{ours / library:.1f}"),
        ("its memory at most (RSS)", "≤ 300 MiB", f"{memory:.0f} MiB"),
        ("replay verify", "", f"{count / verified:,.0f} events/s, {verify_memory:.0f} MiB"),
        (f"time travel, {_LONG:,} events, p50", "", f"{travelled[_LOOKS // 2] * 1000:.0f} ms"),
        ("its worst", "< 200 ms", f"{travelled[-1] * 1000:.0f} ms"),
        (f"lag at {lag.PER_SECOND} messages/s, p50", "", f"{share(lags, 0.5) * 1000:.0f} ms"),
        ("its p99", "≤ 100 ms", f"{share(lags, 0.99) * 1000:.0f} ms"),
    ]
    title = f"{count:,} events, all read models, Postgres without durability"
    show(console, [Table(title, ("", "goal", "result"), rows)])


async def _position(url: str, count: int) -> int:
    """The position of the so-many-th event: erased threads leave gaps."""
    async with open_log(url) as log:
        position = 0
        while count > 0:
            entries = await log.read(position, min(count, 5000))
            count, position = count - len(entries), entries[-1].position
        return position


def _command(url: str, name: str) -> tuple[float, float]:
    """Seconds, and MiB at most (RSS), of `agentchat replay NAME` on this database."""
    began = time.monotonic()
    command = (sys.executable, "-m", "ops.main", "replay", name)
    environ = os.environ | {"AGENTCHAT_DATABASE_URL": url}
    process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"agentchat replay {name} ended with {process.returncode}")
    return time.monotonic() - began, used.ru_maxrss / 1024


async def _time_travel(url: str) -> list[float]:
    """Seconds to fold a long conversation up to a version, sorted; versions all over it."""
    conversation_id = new_id()
    dice = random.Random(1)
    async with open_store(url) as store, open_log(url) as log:
        thread = generate.long_thread(_LONG, dice)
        facts = [(mapper.topic_of(event), mapper.state_of(event)) for event in thread]
        for start in range(0, _LONG, 1000):
            await store.append_stored(conversation_id, start, facts[start : start + 1000])
        await past_of(log, conversation_id, 1)  # the first connection is not the point
        seconds: list[float] = []
        for step in range(1, _LOOKS + 1):
            began = time.monotonic()
            past = await past_of(log, conversation_id, step * _LONG // _LOOKS)
            seconds.append(time.monotonic() - began)
            assert past.head == _LONG
        return sorted(seconds)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    main()
