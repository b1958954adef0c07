"""What commands have in common where they print and end."""

import contextlib
import os
import sys

INTERRUPTED = 130
"""The exit code of what Ctrl-C stopped."""


def counted(number: int, noun: str) -> str:
    """`1 run`, `1,200 runs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def forget_stdout() -> None:
    """Nobody reads it any more; the interpreter would complain when it flushes it at its end."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
