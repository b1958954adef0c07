"""Define the result of reading a file, why one cannot be read, and how much text it may have."""

from typing import NamedTuple

MOST_CHARACTERS = 16_000_000
"""The longest text of a file or document."""


class ConvertedFile(NamedTuple):
    """A file's text as HTML; `warnings` tell the person who imports it what could not be read."""

    html: str
    warnings: tuple[str, ...] = ()


class UnreadableFile(Exception):  # noqa: N818 - reads as the condition it is
    """A file cannot be read.

    `reason` continues a sentence that begins with the file's name: "is encrypted".
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
