"""Write logs as JSON lines on stderr, with the trace, conversation and account they belong to.

Only fields that a caller names are written. Keys of the form `sk-...` are removed wherever they occur, and no
character of a line drives a terminal.
"""

import functools
import json
import logging
import re
import sys
from collections.abc import MutableMapping
from contextlib import AbstractContextManager, suppress
from typing import Any, BinaryIO, TextIO, TypeAlias, cast

import msgspec
import structlog

from agentchat.contracts.text_checks import escape_controls

BoundLogger: TypeAlias = structlog.typing.FilteringBoundLogger

# A word also begins after an escape of JSON or Python, such as `\n`.
_ESCAPES = rb"(?<=\\[bfnrt])|(?<=\\x[0-9a-f]{2})|(?<=\\u[0-9A-Fa-f]{4})"
_KEY = re.compile(rb"(?:(?<![A-Za-z0-9])|" + _ESCAPES + rb")sk-[A-Za-z0-9_-]{12,}")


def configure(service: str, level: str = "info", stream: TextIO | None = None) -> None:
    """Write lines of `level` and above to `stream` (default stderr).

    Records of libraries that use the standard library are written from `warning` up: below that they report
    every query and request.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"no such log level: {level}")
    out = _Lossy((stream or sys.stderr).buffer)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _add_service(service),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.BytesLoggerFactory(file=cast(BinaryIO, out)),
        cache_logger_on_first_use=False,
    )
    get_logger.cache_clear()
    root = logging.getLogger()
    root.handlers[:] = [_Forward()]
    if root.level != max(number, logging.WARNING):  # it would touch each logger, which forks share: 1.2 MiB
        root.setLevel(max(number, logging.WARNING))


@functools.cache
def get_logger(name: str | None = None) -> BoundLogger:
    """Return a logger whose lines carry `component: name`. It may be created before `configure` is called.

    After that, it is bound once: binding takes half the time of a line.
    """
    logger: BoundLogger = structlog.get_logger(**({"component": name} if name else {}))
    return logger.bind() if structlog.is_configured() else logger


def get_first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or the name of its class.

    The further lines of a Postgres error repeat a row's content.
    """
    return str(error).strip().partition("\n")[0] or type(error).__name__


def bind_context(**values: str) -> AbstractContextManager[None]:
    """Add `values` to every line written within the block, in this task and in tasks started there."""
    return structlog.contextvars.bound_contextvars(**values)


def render(_logger: Any, _method: str, event: structlog.typing.EventDict) -> bytes:
    """Return one line of JSON, whatever the values are: a log call never raises because of its arguments."""
    try:
        line = escape_controls(_encoder.encode(event))
    except (TypeError, ValueError, RecursionError):
        line = json.dumps({str(key): repr(value)[:2000] for key, value in event.items()}).encode()
    return _KEY.sub(b"sk-***", line) if b"sk-" in line else line


class _Lossy:
    """A file whose write errors are ignored, since its disk may be full.

    What cannot be written waits in the file's own buffer; beyond that, lines are dropped.
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


def _add_service(service: str) -> structlog.typing.Processor:
    def add(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event["service"] = service
        return event

    return add


class _Forward(logging.Handler):
    """Hands the standard library's records to structlog, so that all lines have one form."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            text = str(record.msg)
        fields: dict[str, Any] = {"exc_info": record.exc_info} if record.exc_info else {}
        get_logger(record.name).log(record.levelno, text, **fields)
