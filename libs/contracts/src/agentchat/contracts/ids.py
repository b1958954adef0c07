"""Create and recognise identifiers: UUIDv7 as text (RFC 9562, section 5.7).

UUIDv7 starts with the time in milliseconds, so ids sort by creation time: exactly within a process, to the
millisecond between processes. The id of a reply is derived from its request instead.
"""

import hashlib
import os
import re
import threading
import time

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")
_TRACE = re.compile(r"[0-9a-f]{32}\Z")


class _IdSource:
    """Makes UUIDv7 that ascend within a process (RFC 9562, section 6.2, method 2).

    An id of the same millisecond, or of a clock that was set back, is the one before plus a random number.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def make(self) -> int:
        """Return the 122 bits without version and variant: 48 of Unix milliseconds, 74 random ones."""
        random = int.from_bytes(os.urandom(10), "big")
        milliseconds = time.time_ns() // 1_000_000 & (1 << 48) - 1
        fresh = milliseconds << 74 | random & (1 << 73) - 1  # a free bit, to count on
        with self._lock:
            self._last = max(fresh, self._last + 1 + (random & 0xFFFFFFFF))
            return self._last


_source = _IdSource()


def make_id() -> str:
    """Return a new UUIDv7 as 36 lower-case characters; those of one process sort by creation."""
    made = _source.make()
    value = (made >> 74) << 80 | 0x7 << 76 | (made >> 62 & 0xFFF) << 64 | 0b10 << 62 | made & (1 << 62) - 1
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def make_unlisted_id() -> str:
    """Return a new id for a conversation that no list shows: a UUIDv8 (RFC 9562, section 5.8)."""
    text = make_id()
    return f"{text[:14]}8{text[15:]}"


def is_unlisted(conversation_id: str) -> bool:
    """Return True if the id was made by `make_unlisted_id`."""
    return conversation_id[14:15] == "8"


def is_conversation_id(text: str) -> bool:
    """Return True if the text has the form of a conversation id: a UUIDv7, or a UUIDv8 if unlisted."""
    return is_uuid(text) and text[14] in "78"


def derive_reply_id(trace_id: str) -> str:
    """Return the id that the reply to a request will have: a UUIDv8 derived from the trace id.

    Runs that ended before this rule existed have another id, which is in their saved reply.
    """
    return derive_uuid(hashlib.sha256(b"reply " + trace_id.encode()).hexdigest())


def derive_uuid(digest: str) -> str:
    """Return a UUIDv8 built from at least 32 hexadecimal digits."""
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


def make_call_id() -> str:
    """Return a new id for a call of a client's tool, unique among all calls."""
    return f"tc_{make_id().replace('-', '')}"


def find_request_id(call_id: str) -> str | None:
    """Return the UUID in an id of `make_call_id`; None for any other id."""
    digits = call_id.removeprefix("tc_")
    text = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    return text if call_id.startswith("tc_") and is_uuid(text) else None


def is_uuid(text: str) -> bool:
    """Return True if `text` is a UUID of any version in its canonical lower-case form."""
    return _UUID.match(text) is not None


def is_trace_id(text: str) -> bool:
    """Return True if `text` is a W3C trace id: 32 lower-case hexadecimal digits, not all zero."""
    return _TRACE.match(text) is not None and text != "0" * 32
