"""Places in a stream, and the cursors that name them: `<trace_id>:<stage>.<calls>.<length>.<digest>`. Pure.

A cursor has what its reader has, not how that was cut: so it means the same live and out of the log, at each
gateway, in both forms, and for a reader whose deltas were joined (decision 17).
"""

import hashlib
import re

import msgspec

BEGUN, SOURCED, ENDED = 1, 2, 3
_DIGEST = 8
CURSOR_PATTERN = r"^([0-9a-f]{32}):([123])\.([0-9]{1,9})\.([0-9]{1,12})\.([0-9a-f]{8})$"
_CURSOR = re.compile(CURSOR_PATTERN)


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """How far a reader is: a stage, tool calls, code points of text, and the text's digest.

    The digest is the first 8 hexadecimal digits of the SHA-256 of that text in UTF-8.
    """

    stage: int
    calls: int
    length: int
    digest: str

    def text(self, trace_id: str) -> str:
        """The id of an event for callers."""
        return f"{trace_id}:{self.stage}.{self.calls}.{self.length}.{self.digest}"

    def is_within(self, other: "Cursor") -> bool:
        """Whether a reader with `other` has all that one with this has, if both are of the same text."""
        return self.stage <= other.stage and self.calls <= other.calls and self.length <= other.length

    def fits(self, text: str) -> bool:
        """Whether `text` begins with what its reader has."""
        beginning = text[: self.length]
        return len(beginning) == self.length and digest_of(beginning) == self.digest

    def joined(self, other: "Cursor") -> "Cursor":
        """The place of a reader who has all of either, in the same run."""
        longer = self if self.length >= other.length else other
        return Cursor(
            stage=max(self.stage, other.stage),
            calls=max(self.calls, other.calls),
            length=longer.length,
            digest=longer.digest,
        )


def parse_cursor(text: str, trace_id: str) -> Cursor | None:
    """The cursor that a text of this trace is; None for anything else."""
    found = _CURSOR.fullmatch(text) if text.isascii() else None
    if found is None or found[1] != trace_id:
        return None
    return Cursor(stage=int(found[2]), calls=int(found[3]), length=int(found[4]), digest=found[5])


def digest_of(text: str) -> str:
    """The digest of a complete text."""
    return shortened(hashlib.sha256(text.encode()).hexdigest())


def shortened(sha256: str) -> str:
    """The digest that a cursor has of a SHA-256 in hexadecimal."""
    return sha256[:_DIGEST]
