"""Secrets for a command: from a variable, a file, standard input or a prompt, and never from an argument.

Arguments can be read by every user of the machine in the list of processes, and stay in the shell's history.
"""

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import typer

from ops.errors import SetupError

_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:\s*@(env|file):(.+)")


def from_variable(name: str) -> str:
    """Raises SetupError."""
    value = os.environ.get(name, "").strip()
    if not value:
        raise SetupError(f"the variable {name} is not set")
    return value


def from_file(path: str) -> str:
    """What the file holds, without white space around it; `-` is standard input. Raises SetupError."""
    text = read_text(path).strip()
    if not text:
        raise SetupError(f"{_called(path)} is empty")
    return text


def read_text(path: str) -> str:
    """A whole file of UTF-8; `-` is standard input. Raises SetupError."""
    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return content.decode()
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise SetupError(f"{_called(path)} is not UTF-8 (at byte {error.start})") from None


def asked(question: str) -> str:
    """Typed unseen. Raises SetupError where nobody can be asked."""
    if not sys.stdin.isatty():
        raise SetupError("there is no terminal to ask on; name a variable or a file")
    return str(typer.prompt(question, hide_input=True, err=True)).strip()


def one(variable: str | None, file: str | None, *, ask: bool, question: str) -> str | None:
    """The secret that at most one of these leads to; None where there is none. Raises SetupError."""
    if sum((variable is not None, file is not None, ask)) > 1:
        raise SetupError(f"give the {question.lower()} in one way")
    if variable is not None:
        return from_variable(variable)
    if file is not None:
        return from_file(file)
    return asked(question) if ask else None


def headers(given: Iterable[str]) -> dict[str, str]:
    """`Name: @env:VARIABLE` or `Name: @file:PATH`, by name. Raises SetupError."""
    values: dict[str, str] = {}
    for text in given:
        found = _HEADER.fullmatch(text.strip())
        if found is None:
            name = text.partition(":")[0][:60]
            raise SetupError(
                f"header {name!r}: write `Name: @env:VARIABLE` or `Name: @file:PATH`; a value in an argument "
                "would show in the list of processes"
            )
        name, source, place = found.groups()
        values[name] = from_variable(place.strip()) if source == "env" else from_file(place.strip())
    return values


def _called(path: str) -> str:
    return "standard input" if path == "-" else path
