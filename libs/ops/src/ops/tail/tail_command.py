"""Follows EVENTS and prints it, until Ctrl-C."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

from bus import Bus, BusUnavailable, EventSelection
from ops import environment, printing
from ops.bus_connection import connected
from ops.errors import RefusedError
from ops.output import forget_stdout
from ops.tail import event_lines
from ops.tail.tail_filters import Filter
from runtime import logs

NATS_URL = "AGENTCHAT_NATS_URL"


def tail(wanted: Filter, *, json_too: bool) -> None:
    """Returns after Ctrl-C, and when nobody reads on. Raises StackError."""
    logs.configure("agentchat", "error")
    try:
        asyncio.run(_tail(_nats_url(os.environ), wanted, json_too=json_too))
    except BrokenPipeError:
        forget_stdout()


async def _tail(nats_url: str, wanted: Filter, *, json_too: bool) -> None:
    working = asyncio.current_task()
    assert working is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, working.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        async with connected(nats_url, "agentchat tail") as bus:
            await _check(bus, wanted)
            await _print(bus, wanted, json_too=json_too)


async def _print(bus: Bus, wanted: Filter, *, json_too: bool) -> None:
    screen = printing.console()
    link = _Link()
    asked = EventSelection(
        account_id=wanted.account_id,
        name=wanted.names[0] if len(wanted.names) == 1 else None,
        start=wanted.start,
    )
    since = wanted.start if isinstance(wanted.start, datetime) else None
    async for event in bus.feed.follow(asked, away=link.away):
        link.is_back()
        if not wanted.takes(event) or (since and _before(event_lines.happened_at(event), since)):
            continue
        if screen.is_terminal and not json_too:
            screen.print(event_lines.as_line(event, screen.width), crop=False, soft_wrap=True)
            continue
        line = event_lines.as_json(event) if json_too else event_lines.as_line(event, None).plain
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class _Link:
    """Says when NATS is away, once, and when it is back."""

    def __init__(self) -> None:
        self._away = False

    def away(self, error: BusUnavailable) -> None:
        if not self._away:
            printing.note(f"NATS is away, waiting for it: {error}")
        self._away = True

    def is_back(self) -> None:
        if self._away:
            printing.note("NATS is back")
        self._away = False


async def _check(bus: Bus, wanted: Filter) -> None:
    """A start that is not there is said. Raises RefusedError."""
    try:
        end = await bus.feed.end()
        oldest = await bus.feed.oldest()
    except BusUnavailable as error:
        raise RefusedError(f"EVENTS cannot be read: {error}") from None
    if isinstance(wanted.start, int):
        if wanted.start > end.position + 1:
            reach = f"EVENTS ends at {end.position:,}" if end.position else "EVENTS is empty"
            raise RefusedError(f"there is no position {wanted.start:,} yet: {reach}", 2)
        if wanted.start < oldest:
            printing.note(
                f"EVENTS begins at position {oldest:,}; `agentchat replay feed` brings older events"
            )


def _nats_url(environ: Mapping[str, str]) -> str:
    """Raises NotRunningError."""
    own, folder = environment.given(environ, NATS_URL), environment.run_folder(environ)
    return own or environment.load(folder, elsewhere=f"; for another NATS set {NATS_URL}").nats_url


def _before(at: str, since: datetime) -> bool:
    try:
        return datetime.fromisoformat(at) < since.astimezone(UTC)
    except ValueError:
        return False
