"""JSON lines on stderr: one object a line, bound to the trace, conversation and account at hand.

Only the fields that a caller names are written; keys of the `sk-...` kind are struck out wherever they stand,
and no character in a line drives a terminal.
"""

import json
import logging
import re
import sys
from collections.abc import MutableMapping
from contextlib import AbstractContextManager, suppress
from typing import Any, BinaryIO, TextIO, TypeAlias, cast

import msgspec
import structlog

from agentchat.contracts.text import escaped

BoundLogger: TypeAlias = structlog.typing.FilteringBoundLogger

# Where a word begins, also after the letters of an escape of JSON's or Python's, such as that of a new line.
_ESCAPES = rb"(?<=\\[bfnrt])|(?<=\\x[0-9a-f]{2})|(?<=\\u[0-9A-Fa-f]{4})"
_KEY = re.compile(rb"(?:(?<![A-Za-z0-9])|" + _ESCAPES + rb")sk-[A-Za-z0-9_-]{12,}")


def configure(service: str, level: str = "info", stream: TextIO | None = None) -> None:
    """Write lines of `level` and above to `stream` (stderr).

    Libraries that log through the standard library are heard from `warning` up: below that they tell of
    every query and request.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"no such log level: {level}")
    out = _Lossy((stream or sys.stderr).buffer)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _service(service),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.BytesLoggerFactory(file=cast(BinaryIO, out)),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers[:] = [_Forward()]
    root.setLevel(max(number, logging.WARNING))


def get_logger(name: str | None = None) -> BoundLogger:
    """A logger whose lines carry `component: name`. It may be made before `configure` is called."""
    logger: BoundLogger = structlog.get_logger(**({"component": name} if name else {}))
    return logger


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its class's name: a server's details repeat what a row holds."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def bound(**values: str) -> AbstractContextManager[None]:
    """Add `values` to every line that is written within, in this task and in tasks started within."""
    return structlog.contextvars.bound_contextvars(**values)


def render(_logger: Any, _method: str, event: structlog.typing.EventDict) -> bytes:
    """One line of JSON, whatever the values are: a log call never raises for what it was given."""
    try:
        line = escaped(_encoder.encode(event))
    except (TypeError, ValueError, RecursionError):
        line = json.dumps({str(key): repr(value)[:2000] for key, value in event.items()}).encode()
    return _KEY.sub(b"sk-***", line) if b"sk-" in line else line


class _Lossy:
    """A file to which nobody's work depends on being able to write: its disk may be full.

    What cannot be written waits in the file's own buffer; past that, lines are dropped.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, line: bytes) -> None:
        with suppress(OSError):
            self._file.write(line)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()


_encoder = msgspec.json.Encoder(enc_hook=str)


def _service(service: str) -> structlog.typing.Processor:
    def add(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event["service"] = service
        return event

    return add


class _Forward(logging.Handler):
    """Hands the standard library's records on to structlog, so that there is one form of line."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            text = str(record.msg)
        fields: dict[str, Any] = {"exc_info": record.exc_info} if record.exc_info else {}
        get_logger(record.name).log(record.levelno, text, **fields)
