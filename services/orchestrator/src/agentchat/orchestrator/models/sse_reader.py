"""Parse server-sent events as the HTML standard does (section 9.2.6, "Interpreting an event stream")."""

from collections.abc import Iterator

MAX_EVENT_BYTES = 8 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"


class StreamBroken(Exception):  # noqa: N818 - a state of things, as its callers read it
    """The stream contains something that is no event of the protocol, or ends too soon."""


class EventReader:
    """A parser of an event stream, wherever its bytes are cut.

    Lines end with LF, CR or CRLF. `id` and `retry` are ignored. An event without data is dropped, as is one
    that no empty line completes.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []
        self._event = b""
        self._size = 0  # of the lines in `_data`
        self._is_first_line = True
        self._ended_with_cr = False

    @property
    def within(self) -> bool:
        """True within an event."""
        return bool(self._line or self._data)

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Return the type and the data of each event that `chunk` completes. Raises StreamBroken."""
        if self._ended_with_cr and chunk:
            chunk = chunk.removeprefix(b"\n")  # the second half of a CRLF
            self._ended_with_cr = False
        if b"\r" in chunk:
            self._ended_with_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = chunk.split(b"\n")
        if lines and self._line:
            lines[0] = bytes(self._line + lines[0])
            self._line.clear()
        if lines and self._is_first_line:
            lines[0] = lines[0].removeprefix(_BOM)
            self._is_first_line = False
        for line in lines:
            if not line:
                if self._data:
                    data = b"\n".join(self._data)
                    event, self._data, self._size = self._event, [], 0
                    yield event, data
                self._event = b""
                continue
            field, _, value = line.partition(b":")
            if field == b"data":
                self._data.append(value.removeprefix(b" "))
                self._size += len(line)
            elif field == b"event":
                self._event = value.removeprefix(b" ")
        self._line += rest
        if len(self._line) + self._size > MAX_EVENT_BYTES:
            raise StreamBroken("an event without an end")
