"""Define why a file cannot be read, and how much text it may have."""

MOST_CHARACTERS = 16_000_000
"""The longest text of a file, as of a document."""


class UnreadableFile(Exception):  # noqa: N818 - reads as the condition it is
    """A file cannot be read.

    `reason` continues a sentence that begins with the file's name: "is encrypted".
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
