"""Months and moments as the scripts have them."""

from datetime import UTC, datetime

_SCRIPT_YEAR_BEGINS = 2  # the scripts' years begin with March


def number_of(month: str) -> int:
    """The scripts' number of a month such as "2026-11"; of a time in it too."""
    return int(month[:4]) * 12 + int(month[5:7]) - 1 - _SCRIPT_YEAR_BEGINS


def name_of(number: int) -> str:
    """The month of a number: "2026-11"."""
    year, month = divmod(number + _SCRIPT_YEAR_BEGINS, 12)
    return f"{year:04}-{month + 1:02}"


def microseconds(at: str) -> int:
    """Unix time in microseconds of a time in ISO 8601."""
    since = datetime.fromisoformat(at).astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds
