"""Identifiers in the API's form. Those of a reply follow from the request, so that a repeat is the same."""

import base64
import hashlib
import itertools
import os


def message_id(key: bytes, model: str) -> str:
    """The id of the reply to the turn `key`."""
    return "msg_" + _letters(key, b"message", model.encode())


def tool_use_id(key: bytes, place: int) -> str:
    """The id of the call at `place` in the reply to the turn `key`."""
    return "toolu_" + _letters(key, b"call", str(place).encode())


class RequestIds:
    """Ids of requests: each one new, told apart from those of other processes."""

    def __init__(self) -> None:
        self._process = os.urandom(6).hex()
        self._count = itertools.count(1)

    def next(self) -> str:
        return f"req_{self._process}{next(self._count):010d}"


def _letters(*parts: bytes) -> str:
    digest = hashlib.sha256(b"\0".join(parts)).digest()
    return "01" + base64.b32encode(digest).decode()[:22]
