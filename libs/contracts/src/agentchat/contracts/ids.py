"""Identifiers: UUIDv7 as text (RFC 9562 section 5.7), so that ids sort by the time they were made.

Those of replies follow from their requests instead.
"""

import hashlib
import os
import re
import time

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")
_TRACE = re.compile(r"[0-9a-f]{32}\Z")


def new_id() -> str:
    """A new UUIDv7 as 36 lower-case characters: 48 bits of Unix milliseconds, 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    value = (milliseconds & (1 << 48) - 1) << 80 | 0x7 << 76 | (random >> 68) << 64
    value |= 0b10 << 62 | random & (1 << 62) - 1
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def new_unlisted_id() -> str:
    """A new id of a conversation that no list shows: as `new_id`, but a UUIDv8 (RFC 9562 section 5.8)."""
    text = new_id()
    return f"{text[:14]}8{text[15:]}"


def is_unlisted(conversation_id: str) -> bool:
    """Whether it is one of `new_unlisted_id`."""
    return conversation_id[14:15] == "8"


def may_be_conversation(text: str) -> bool:
    """Whether it has the form of the ids that conversations get: a UUIDv7, or a UUIDv8 where unlisted."""
    return is_uuid(text) and text[14] in "78"


def reply_id(trace_id: str) -> str:
    """The id of the reply to a request, known before there is one: a UUIDv8 (RFC 9562 section 5.8).

    Runs that ended before this rule came have another, which is in their saved reply.
    """
    return uuid_of(hashlib.sha256(b"reply " + trace_id.encode()).hexdigest())


def uuid_of(digest: str) -> str:
    """A UUIDv8 of 32 hexadecimal digits or more."""
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


def is_uuid(text: str) -> bool:
    """Whether `text` is a UUID in its canonical lower-case form, of any version."""
    return _UUID.match(text) is not None


def is_trace_id(text: str) -> bool:
    """Whether `text` is a W3C trace id: 32 lower-case hexadecimal characters, not all zero."""
    return _TRACE.match(text) is not None and text != "0" * 32
