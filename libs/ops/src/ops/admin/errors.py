"""What is refused, as the one line that ends a command."""

from contracts.admin_errors import AdminError, Invalid
from ops.errors import StackError


class RefusedError(StackError):
    """Nothing was done, or not all of it; the text says why."""

    def __init__(self, text: str, exit_code: int = 1) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def refused(error: AdminError) -> RefusedError:
    """With exit code 2 where the command itself has to be different."""
    return RefusedError(str(error), 2 if isinstance(error, Invalid) else 1)
