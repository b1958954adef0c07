"""The guard that a setting makes."""

from collections.abc import Iterable

from net_guard.guard import Guard
from runtime.settings import SettingsError


def guard_of(allow: Iterable[str], variable: str) -> Guard:
    """`allow` is what the environment variable lists. Raises SettingsError."""
    try:
        return Guard(allow)
    except ValueError as error:
        raise SettingsError(f"{variable} cannot be used: {error}") from None
