"""What is wrong with a suite; the text of each is one line.

SuiteError
├── UnfitSuite      a file of it is missing, or is not what it should be
├── NotACase        a run that cannot be a case
└── ToolsNotListed  an agent's tools cannot be listed now
"""


class SuiteError(Exception):
    """A suite cannot be made, read or run."""


class UnfitSuite(SuiteError):  # noqa: N818 - a state of the file
    """A file of the suite is not what it should be; the text begins with its name."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file}: {reason}")
        self.file = file


class NotACase(SuiteError):  # noqa: N818 - a state of the run
    """The text names the run and says why it cannot be one."""

    def __init__(self, trace_id: str, reason: str) -> None:
        super().__init__(f"run {trace_id}: {reason}")
        self.trace_id = trace_id
        self.reason = reason


class ToolsNotListed(SuiteError):  # noqa: N818 - a state of things
    """A case needs the tools that its agent has, and they cannot be had now."""
