"""Errors of the libraries below, as what becomes of the change that was asked for."""

import contextlib
from collections.abc import Iterator

from bus import BusUnavailable
from contracts.admin_errors import Conflict, Unavailable
from directory.errors import SealBroken
from runtime.postgres import DatabaseUnavailable

_UNOPENED = "the agent's secrets were sealed under another secret key; give its headers again"


@contextlib.contextmanager
def outcomes() -> Iterator[None]:
    """Raises AdminError for what has no such form."""
    try:
        yield
    except SealBroken:
        raise Conflict(_UNOPENED) from None
    except (BusUnavailable, DatabaseUnavailable) as error:
        raise Unavailable(f"a part of the service does not answer: {error}") from error
