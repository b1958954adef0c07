"""Read arguments of commands: `key=value` pairs and `@FILE` as a JSON object, files, times."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentchat.contracts.text_checks import convert_to_utf8
from agentchat.conversations.queries.time_travel import log_time
from agentchat.ops.errors import SetupError

_SECRETS = frozenset({"provider_key", "client_secret", "headers"})
"""Fields whose values must not be written out: arguments show in the list of processes."""


def read_query(words: Sequence[str]) -> dict[str, str]:
    """Return `key=value` words as query parameters; `@file:PATH` reads a file. Raises SetupError."""
    return {key: _read_reference(key, value) or value for key, value in map(_split, words)}


def read_body(words: Sequence[str]) -> dict[str, Any]:
    """Return words as a JSON object; later ones have priority.

    `@FILE` is a JSON object (`@-`: standard input). In `key=value` the value is JSON if it can be read as
    such, else text; `@file:PATH` and `@env:NAME` stand for the text of a file, or of a variable. `a.b=value`
    is a field of an object.

    Raises:
        SetupError: The text names the key, never the value, which may be a secret.
    """
    body: dict[str, Any] = {}
    for word in words:
        if word.startswith("@"):
            body |= _read_object(read_file(word[1:]), word)
            continue
        key, value = _split(word)
        *outer, last = key.split(".")
        if _SECRETS & {*outer, last} and value != "null" and not value.startswith(("@env:", "@file:")):
            raise SetupError(f"{key}: write @env:NAME or @file:PATH; arguments show in the list of processes")
        inner = body
        for name in outer:
            inner = inner.setdefault(name, {})
        inner[last] = _parse_value(key, value)
    return body


def read_file(path: str) -> str:
    """Return the text of a file; `-` is standard input. Raises SetupError.

    It must be UTF-8, or begin with a byte order mark.
    """
    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return convert_to_utf8(content).decode()
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise SetupError(f"{path} is not UTF-8 (at byte {error.start})") from None


def parse_time_option(option: str, text: str | None) -> str | None:
    """Parse a time in ISO 8601, UTC without an offset, into the log's form. Raises SetupError."""
    if text is None:
        return None
    try:
        return log_time(text)
    except ValueError:
        raise SetupError(
            f"{option}: {text!r} is not a time in ISO 8601, such as 2026-11-21T09:30:00Z"
        ) from None


def _split(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not (key and equals):
        raise SetupError(f"{word[:40]!r} is neither KEY=VALUE nor @FILE")
    return key, value


def _parse_value(key: str, value: str) -> Any:
    if (text := _read_reference(key, value)) is not None:
        return text
    try:
        return json.loads(value)
    except ValueError:
        return value


def _read_reference(key: str, value: str) -> str | None:
    """Return the text that `@file:PATH` or `@env:NAME` stands for; None if the value is neither."""
    source, _, name = value.partition(":")
    if source == "@file":
        return read_file(name).strip()
    if source != "@env":
        return None
    if not (text := os.environ.get(name, "").strip()):
        raise SetupError(f"{key}: the variable {name} is not set")
    return text


def _read_object(text: str, named: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SetupError(f"{named} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise SetupError(f"{named} must be a JSON object")
    return value
