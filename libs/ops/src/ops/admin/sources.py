"""Values of options that come from elsewhere: `@env:VARIABLE`, `@file:PATH` (`-`: standard input), `@ask`.

Secrets come from there alone: arguments can be read by every user of the machine in the list of processes,
and stay in the shell's history.
"""

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import typer

from ops.errors import SetupError

_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:\s*(@.+)")


def text(given: str, name: str, *, secret: bool = False) -> str:
    """What an option stands for, without white space around it where it is from elsewhere.

    Raises SetupError, which calls it by `name`, for a secret that is written out too.
    """
    source, _, where = given.partition(":")
    match source:
        case "@env":
            value = os.environ.get(where, "").strip()
            if not value:
                raise SetupError(f"{name}: the variable {where} is not set")
            return value
        case "@file":
            return read_file(where).strip()
        case "@ask":
            if not sys.stdin.isatty():
                raise SetupError(f"{name}: there is no terminal to ask on; name a variable or a file")
            return str(typer.prompt(name, hide_input=True, err=True)).strip()
    if secret:
        raise SetupError(
            f"{name}: write @env:VARIABLE, @file:PATH or @ask; a value in an argument would show in the list "
            "of processes"
        )
    return given


def read_file(path: str) -> str:
    """A whole file of UTF-8; `-` is standard input. Raises SetupError."""
    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return content.decode()
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise SetupError(f"{path} is not UTF-8 (at byte {error.start})") from None


def headers(given: Iterable[str]) -> dict[str, str]:
    """`Name: @env:VARIABLE` or `Name: @file:PATH`, by name. Raises SetupError, without the value."""
    values: dict[str, str] = {}
    for each in given:
        found = _HEADER.fullmatch(each.strip())
        name = found[1] if found else each.partition(":")[0][:60]
        values[name] = text(found[2] if found else "", f"header {name!r}", secret=True)
    return values
