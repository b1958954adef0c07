"""Server-sent events as model providers send them (HTML standard, section 9.2.6, as far as it matters here):
`data` lines make up an event, an empty line ends it.
"""

import json
from collections.abc import Iterator
from typing import TypeVar

import msgspec

MAX_EVENT_BYTES = 8 * 1024 * 1024

T = TypeVar("T")


class StreamBroken(Exception):  # noqa: N818 - a state of things, as its callers read it
    """The stream holds something that is no event of the protocol, or ends too soon."""


class EventReader:
    """Bytes in, the data of events out, wherever the bytes were cut."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0  # of the lines that `_data` is of

    @property
    def within(self) -> bool:
        return bool(self._line or self._data)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The data of the events that `chunk` completes. Raises StreamBroken."""
        *lines, rest = chunk.split(b"\n")
        if lines and self._line:
            lines[0] = bytes(self._line + lines[0])
            self._line.clear()
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:])
                self._size += len(line)
            elif self._data and line in (b"", b"\r"):
                data = b"\n".join(self._data)
                self._data.clear()
                self._size = 0
                yield data
        self._line += rest
        if len(self._line) + self._size > MAX_EVENT_BYTES:
            raise StreamBroken("an event without an end")


def decoded(data: bytes, decoder: msgspec.json.Decoder[T], kind: type[T]) -> T:
    """An event's data as `kind`, which `decoder` decodes. Raises StreamBroken."""
    try:
        return decoder.decode(data)
    except RecursionError as error:
        raise StreamBroken("an event nested without end") from error
    except ValueError:
        # Lone surrogates and stray bytes: rare, and read by a slower, more tolerant parser.
        try:
            return msgspec.convert(json.loads(data.decode("utf-8", "replace")), kind)
        except (ValueError, RecursionError) as error:
            raise StreamBroken("an event that is not JSON of the protocol") from error
