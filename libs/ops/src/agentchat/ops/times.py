"""Parse times that a person gives to a command."""

import re
from datetime import UTC, datetime, timedelta

from agentchat.ops.errors import SetupError

_AGE = re.compile(r"(\d{1,9})(s|m|h|d)\Z")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_time(text: str, option: str) -> datetime:
    """Return the time that an option names: ISO 8601, or an age such as 15m.

    Raises:
        SetupError: It is neither, or in the future. The text names the option.
    """
    now = datetime.now(UTC)
    if age := _AGE.match(text):
        try:
            return now - timedelta(**{_UNITS[age[2]]: int(age[1])})
        except OverflowError:
            raise SetupError(f"{option}: {text} is too long ago") from None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise SetupError(
            f"{option}: give a time such as 2026-11-21T09:30:00Z or an age such as 15m, not {text!r}"
        ) from None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    if time > now:
        raise SetupError(f"{option}: {text} is in the future")
    return time
