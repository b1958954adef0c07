"""Format text for standard output: clean it of control characters, shorten it.

Cleaned text cannot control a terminal: a visible symbol replaces each control character. Cleaning works
character by character, so a stream may be cut anywhere.
"""

import contextlib
import json
import os
import sys
from typing import Any

INTERRUPTED = 130
"""The exit code of what Ctrl-C stopped."""
_KEPT = "\n\t"
_ORDER_MARKS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # text that reads other than it is


def _build_replacements() -> dict[int, str | None]:
    shown: dict[int, str | None] = {code: chr(0x2400 + code) for code in range(0x20)}
    shown |= dict.fromkeys(range(0x7F, 0xA0), "\N{REPLACEMENT CHARACTER}")
    shown |= dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}")
    shown |= dict.fromkeys(map(ord, _ORDER_MARKS))
    shown |= {0x2028: "\n", 0x2029: "\n", ord("\r"): None}
    return {code: text for code, text in shown.items() if chr(code) not in _KEPT}


_SHOWN = _build_replacements()


def clean(text: str) -> str:
    """Replace the control characters of a text, except line ends and tabs."""
    return text.translate(_SHOWN)


def shorten(text: str, most: int) -> str:
    """Put a text on one line of at most `most` characters."""
    line = " ".join(clean(text).split())
    return line if len(line) <= most else line[: max(0, most - 1)].rstrip() + "…"


def format_fields(value: Any, most: int) -> str:
    """Format a tool's input as `name=value, …`, shortened to `most` characters."""
    if not isinstance(value, dict):
        return shorten(_format_json(value), most)
    return shorten(", ".join(f"{name}={_format_json(item)}" for name, item in value.items()), most)


def _format_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def discard_stdout() -> None:
    """Discard further output after the reader closed the pipe: flushing at exit would fail."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
