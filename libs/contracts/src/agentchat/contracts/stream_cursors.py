"""Name a place in a stream with a cursor: `<trace_id>:<stage>.<calls>.<length>.<digest>`. Pure.

A cursor describes what its reader has, not how the stream was split into events. So a cursor means the same
in a live stream and in the log, at each gateway, in all forms, and for a reader whose deltas were merged
(decision 17). The form `full` adds `.<extras>`: the tool results and warnings that only it has, and, if there
is reasoning, `.<length>.<digest>` of it.
"""

import hashlib
import re

import msgspec

BEGUN, SOURCED, ENDED = 1, 2, 3
_DIGEST = 8
_REASONING = r"\.([0-9]{1,12})\.([0-9a-f]{8})"
CURSOR_PATTERN = (
    r"^([0-9a-f]{32}):([123])\.([0-9]{1,9})\.([0-9]{1,12})\.([0-9a-f]{8})"
    rf"(?:\.([0-9]{{1,9}})(?:{_REASONING})?)?$"
)
_CURSOR = re.compile(CURSOR_PATTERN)


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """A reader's progress: a stage, tool calls, code points of text, and the text's digest.

    The digest is the first 8 hexadecimal digits of the SHA-256 of the text in UTF-8. `reasoning` and
    `reasoning_digest` are the same of the reasoning; they order nothing, since a take-over may change it.
    """

    stage: int
    calls: int
    length: int
    digest: str
    extras: int = 0
    reasoning: int = 0
    reasoning_digest: str = ""

    def format(self, trace_id: str) -> str:
        """Return the event id that callers see."""
        place = f"{trace_id}:{self.stage}.{self.calls}.{self.length}.{self.digest}"
        if self.reasoning:
            return f"{place}.{self.extras}.{self.reasoning}.{self.reasoning_digest}"
        return f"{place}.{self.extras}" if self.extras else place

    def is_within(self, other: "Cursor") -> bool:
        """Return True if a reader at `other` has everything that this cursor's reader has.

        Both must be of the same text.
        """
        return (
            self.stage <= other.stage
            and self.calls <= other.calls
            and self.length <= other.length
            and self.extras <= other.extras
        )

    def matches(self, text: str) -> bool:
        """Return True if `text` begins with the text that the reader has."""
        beginning = text[: self.length]
        return len(beginning) == self.length and compute_digest(beginning) == self.digest

    def matches_reasoning(self, reasoning: str) -> bool:
        """Return True if `reasoning` begins with what the reader has of it."""
        beginning = reasoning[: self.reasoning]
        return len(beginning) == self.reasoning and (
            not beginning or compute_digest(beginning) == self.reasoning_digest
        )

    def merge(self, other: "Cursor") -> "Cursor":
        """Return the cursor of a reader who has everything of both cursors, in the same run."""
        longer = self if self.length >= other.length else other
        wiser = self if self.reasoning >= other.reasoning else other
        return Cursor(
            stage=max(self.stage, other.stage),
            calls=max(self.calls, other.calls),
            length=longer.length,
            digest=longer.digest,
            extras=max(self.extras, other.extras),
            reasoning=wiser.reasoning,
            reasoning_digest=wiser.reasoning_digest,
        )


def parse_cursor(text: str, trace_id: str) -> Cursor | None:
    """Parse a cursor of this trace; return None for anything else."""
    found = _CURSOR.fullmatch(text) if text.isascii() else None
    if found is None or found[1] != trace_id:
        return None
    return Cursor(
        stage=int(found[2]),
        calls=int(found[3]),
        length=int(found[4]),
        digest=found[5],
        extras=int(found[6] or 0),
        reasoning=int(found[7] or 0),
        reasoning_digest=found[8] or "",
    )


def compute_digest(text: str) -> str:
    """Return the digest of a complete text."""
    return shorten_digest(hashlib.sha256(text.encode()).hexdigest())


def shorten_digest(sha256: str) -> str:
    """Return the part of a hexadecimal SHA-256 that a cursor holds."""
    return sha256[:_DIGEST]
