"""The guard that a setting makes."""

from collections.abc import Collection, Iterable

from net_guard.guard import HTTPS_PORTS, Guard
from runtime.settings import SettingsError


def guard_of(allow: Iterable[str], variable: str, ports: Collection[int] = HTTPS_PORTS) -> Guard:
    """`allow` is what the environment variable lists; all else is at one of `ports`. Raises SettingsError."""
    try:
        return Guard(allow, ports=ports)
    except ValueError as error:
        raise SettingsError(f"{variable} cannot be used: {error}") from None
