"""What is wrong with a suite; the text of each is one line.

SuiteError
└── UnfitSuite       a file of it is missing, or is not what it should be
"""


class SuiteError(Exception):
    """A suite cannot be made, read or run."""


class UnfitSuite(SuiteError):  # noqa: N818 - a state of the file
    """A file of the suite is not what it should be; the text begins with its name."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file}: {reason}")
        self.file = file
