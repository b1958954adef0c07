"""Ctrl-C ends the current work, not the program."""

import asyncio
import contextlib
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from typing import Any

_ENDINGS = (signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Handles SIGINT while the program runs; outside of `during` it does nothing (a prompt reads keys).

    SIGTERM and SIGHUP end the program as an exit does, so that the terminal's settings are restored.
    """

    def __init__(self) -> None:
        self._react: Callable[[], object] = _nothing

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, lambda: self._react())
        for number in _ENDINGS:
            loop.add_signal_handler(number, _end, number)
        try:
            yield
        finally:
            for number in (signal.SIGINT, *_ENDINGS):
                loop.remove_signal_handler(number)

    @contextlib.contextmanager
    def during(self, react: Callable[[], object]) -> Iterator[None]:
        """Call `react` at each Ctrl-C in this block."""
        before, self._react = self._react, react
        try:
            yield
        finally:
            self._react = before


@contextlib.contextmanager
def quiet_keyboard() -> Iterator[None]:
    """Keys that are typed while a reply is drawn do not show within it; the next prompt reads them."""
    try:
        descriptor = sys.stdin.fileno()
        before: list[Any] = termios.tcgetattr(descriptor)
    except (termios.error, ValueError, OSError):
        yield  # no terminal
        return
    silent = list(before)
    silent[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(descriptor, termios.TCSANOW, silent)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


def _end(number: signal.Signals) -> None:
    raise SystemExit(128 + number)


def _nothing() -> None:
    pass
