"""The errors of a command; the text of each is one line for stderr.

StackError
├── SetupError        as it is set up it cannot start: a taken port, an unwritable folder, a wrong setting
├── StartError        a process did not become ready
├── NotRunningError   no stack runs in this folder
├── RefusedError      nothing was done, or not all of it
└── StoppedError      Ctrl-C
"""

from collections.abc import Iterator
from contextlib import contextmanager


class StackError(Exception):
    """The stack cannot do what was asked; ends the command with `exit_code`."""

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
    """Ctrl-C has ended the command; the text says what is left of it."""

    exit_code = 130


@contextmanager
def raise_failures_with_code_2() -> Iterator[None]:
    """For commands whose exit code 1 is a verdict: a failure has 2, as where too little is known.

    Raises StackError.
    """
    try:
        yield
    except StackError as error:
        if error.exit_code != 1:
            raise
        raise RefusedError(str(error), 2) from None
