"""What `agentchat tail` is asked for, read from its options. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from contracts import events, subjects
from contracts.feed import FeedEvent
from contracts.ids import is_uuid
from ops.errors import SetupError

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
    if ago := _AGO.match(text):
        try:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        except OverflowError:
            raise SetupError(f"--from: {text} ago is before all time") from None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise SetupError(
            f"--from: {text!r} is neither a position, nor a time such as 2026-11-21T09:30:00Z, nor an age"
            " such as 15m"
        ) from None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    if time > now:
        raise SetupError(f"--from: {text} has not come yet")
    return time
