"""Define the errors of a command; the text of each is one line on stderr.

StackError
├── SetupError        a wrong setting, a port in use, a folder that cannot be written
├── StartError        a process did not become ready
├── NotRunningError   no stack runs in this folder
├── RefusedError      nothing was done, or not all of it
└── StoppedError      Ctrl-C
"""

from collections.abc import Iterator
from contextlib import contextmanager


class StackError(Exception):
    """The command failed; it ends with `exit_code`."""

    exit_code = 1


class SetupError(StackError):
    """Nothing was started; the user has to change a setting, a folder or a port."""

    exit_code = 2


class StartError(StackError):
    """A process ended, or did not become ready in time, while the stack was starting."""


class NotRunningError(StackError):
    """The run folder holds no running stack."""


class RefusedError(StackError):
    """Nothing was done, or not all of it; the text is the reason."""

    def __init__(self, text: str, exit_code: int = 1) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class StoppedError(StackError):
    """The user stopped the command by Ctrl-C; the text says what is unfinished."""

    exit_code = 130


@contextmanager
def raise_failures_with_code_2() -> Iterator[None]:
    """Give failures exit code 2, for commands whose exit code 1 is a verdict. Raises StackError."""
    try:
        yield
    except StackError as error:
        if error.exit_code != 1:
            raise
        raise RefusedError(str(error), 2) from None
