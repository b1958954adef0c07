"""Define the errors of suites; the text of each is one line.

SuiteError ├── UnfitSuite      a file of the suite is missing or invalid ├── NotACase        a run cannot be a
case └── ToolsNotListed  an agent's tools cannot be listed now
"""


class SuiteError(Exception):
    """A suite cannot be made, read or run."""


class UnfitSuite(SuiteError):  # noqa: N818 - a state of the file
    """A file of the suite is missing or invalid; the text begins with its name."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file}: {reason}")
        self.file = file


class NotACase(SuiteError):  # noqa: N818 - a state of the run
    """A run cannot be a case; the text names the run and the reason."""

    def __init__(self, trace_id: str, reason: str) -> None:
        super().__init__(f"run {trace_id}: {reason}")
        self.trace_id = trace_id
        self.reason = reason


class DependsOnFiles(NotACase):
    """A run's reply may depend on files, which a case cannot have: run again, it would be another one."""

    def __init__(self, trace_id: str) -> None:
        super().__init__(trace_id, "its conversation has files, which a case cannot have")


class ToolsNotListed(SuiteError):  # noqa: N818 - a state of things
    """A case needs its agent's tools, and they cannot be listed now."""
