"""`python -m bench.replay [EVENTS]`: measures on embedded servers of its own; prints a table."""

import asyncio
import contextlib
import os
import random
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.replay import generate, lag, library_runner
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
_MEMORY_SECONDS = 0.05


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
        rebuilt, memory = await _command(url, "rebuild")
        verified, verify_memory = await _command(url, "verify")
        travelled = await _time_travel(url)
    ours = count / rebuilt
    table = Table(
        title=f"{count:,} events, all read models, Postgres without durability", title_justify="left"
    )
    for name in ("", "goal", "result"):
        table.add_column(name, justify="left" if not name else "right")
    table.add_row("the library's runner", "", f"{library:,.0f} events/s")
    table.add_row("replay rebuild, from start to end", "", f"{ours:,.0f} events/s")
    table.add_row("times the library's", "≥ 20", f"{ours / library:.1f}")
    table.add_row("its memory at most (RSS)", "≤ 300 MiB", f"{memory:.0f} MiB")
    table.add_row("replay verify", "", f"{count / verified:,.0f} events/s, {verify_memory:.0f} MiB")
    table.add_row(f"time travel, {_LONG:,} events, p50", "", f"{travelled[_LOOKS // 2] * 1000:.0f} ms")
    table.add_row("its worst", "< 200 ms", f"{travelled[-1] * 1000:.0f} ms")
    at = f"{lag.PER_SECOND} messages/s"
    table.add_row(f"lag at {at}, p50", "", f"{lags[len(lags) // 2] * 1000:.0f} ms")
    table.add_row("its p99", "≤ 100 ms", f"{lags[len(lags) * 99 // 100] * 1000:.0f} ms")
    console.print(table)


async def _position(url: str, count: int) -> int:
    """The position of the so-many-th event: erased threads leave gaps."""
    async with open_log(url) as log:
        position = 0
        while count > 0:
            entries = await log.read(position, min(count, 5000))
            count, position = count - len(entries), entries[-1].position
        return position


async def _command(url: str, name: str) -> tuple[float, float]:
    """Seconds, and MiB at most, of `agentchat replay NAME` on this database."""
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ops.main", "replay", name),
        env=os.environ | {"AGENTCHAT_DATABASE_URL": url},
        stdout=asyncio.subprocess.DEVNULL,
    )
    watching = asyncio.create_task(_memory(process.pid))
    code = await process.wait()
    seconds = time.monotonic() - began
    if code != 0:
        raise SystemExit(f"agentchat replay {name} ended with {code}")
    return seconds, await watching


async def _memory(pid: int) -> float:
    """The high-water mark of a process that runs, in MiB, when it has ended."""
    most = 0.0
    with contextlib.suppress(OSError):
        while lines := [line for line in _status(pid).splitlines() if line.startswith("VmHWM:")]:
            most = int(lines[0].split()[1]) / 1024
            await asyncio.sleep(_MEMORY_SECONDS)
    return most


def _status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()


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
