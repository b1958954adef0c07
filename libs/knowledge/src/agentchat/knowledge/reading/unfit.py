"""Why a file cannot be read, and how much of one is."""

MOST_CHARACTERS = 16_000_000
"""Of the text that is made of a file; as of a document."""


class UnreadableFile(Exception):  # noqa: N818 - an outcome
    """`reason` continues a sentence that begins with the file's name: "is encrypted"."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
