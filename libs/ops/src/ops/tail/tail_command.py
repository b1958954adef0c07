"""`agentchat tail`: its filters, and how it follows EVENTS until Ctrl-C."""

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from bus import Bus, BusUnavailable, EventSelection
from contracts import events, subjects
from contracts.feed import FeedEvent
from contracts.ids import is_uuid
from ops import environment, printing
from ops.connections import connected
from ops.errors import RefusedError, SetupError
from ops.output import forget_stdout
from ops.tail import event_lines
from runtime import logs

_AGO = re.compile(r"(\d{1,9})(s|m|h|d)\Z")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_NAMES = {cls.__name__.lower(): cls.__name__ for cls in events.EVENTS}
_TAGS = {str(cls.__struct_config__.tag): cls.__name__ for cls in events.EVENTS}


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Which events are shown; None and no names: all. `start`: a log position, a time, or from now on."""

    account_id: str | None = None
    names: tuple[str, ...] = ()
    conversation_id: str | None = None
    start: int | datetime | None = None

    def takes(self, event: FeedEvent) -> bool:
        """Whether the event is one of them, but for its time."""
        return (
            (self.account_id is None or event.account_id == self.account_id)
            and (not self.names or event.name in self.names)
            and (self.conversation_id is None or event.conversation_id == self.conversation_id)
        )


def read(
    account: str | None, types: Sequence[str], conversation: str | None, start: str | None, now: datetime
) -> Filter:
    """Raises SetupError, which names the option."""
    if account is not None and subjects.token(account) != account:
        raise SetupError(f"--account: {account!r} is no account's id")
    if conversation is not None and not is_uuid(conversation.lower()):
        raise SetupError(f"--conversation: {conversation!r} is no conversation's id")
    return Filter(
        account_id=account,
        names=tuple(dict.fromkeys(_name(each) for each in types)),
        conversation_id=conversation.lower() if conversation else None,
        start=None if start is None else _start(start, now),
    )


def _name(text: str) -> str:
    """By the class name, or by the stored tag."""
    name = _NAMES.get(text.lower()) or _TAGS.get(text)
    if name is None:
        raise SetupError(f"--type: there is no {text!r}; there are {', '.join(_NAMES.values())}")
    return name


def _start(text: str, now: datetime) -> int | datetime:
    if text.isascii() and text.isdigit():
        if not 1 <= int(text) < 2**63:
            raise SetupError(f"--from: {text} is no position; the first one is 1")
        return int(text)
    return time_of(text, now, "--from", "neither a position, nor")


def time_of(text: str, now: datetime, option: str, no: str = "neither") -> datetime:
    """A time (ISO 8601) or an age, such as 15m. Raises SetupError, which names the option."""
    if ago := _AGO.match(text):
        try:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        except OverflowError:
            raise SetupError(f"{option}: {text} ago is too long ago") from None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise SetupError(
            f"{option}: {text!r} is {no} a time such as 2026-11-21T09:30:00Z, nor an age such as 15m"
        ) from None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    if time > now:
        raise SetupError(f"{option}: {text} is in the future")
    return time


NATS_URL = "AGENTCHAT_NATS_URL"


def tail(wanted: Filter, *, json_too: bool) -> None:
    """Returns after Ctrl-C, and when the output is closed. Raises StackError."""
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
    """Reports when NATS is away, once, and when it is back."""

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
    """Report a start that EVENTS does not have. Raises RefusedError."""
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
