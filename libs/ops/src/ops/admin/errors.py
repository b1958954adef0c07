"""What `administration` refuses, as the one line that ends a command."""

from contracts.admin_errors import AdminError, Conflict, Invalid, Use
from ops.errors import StackError


class RefusedError(StackError):
    """Nothing was done, or not all of it; the text says why."""

    def __init__(self, text: str, exit_code: int = 1) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def refused(error: AdminError) -> RefusedError:
    """With exit code 2 where the command itself has to be another."""
    match error:
        case Invalid():
            return RefusedError(str(error), 2)
        case Conflict():
            named = "; ".join(f"{use.kind}: {_listed(use)}" for use in error.uses if use.names)
            return conflict(str(error), named)
        case _:
            return RefusedError(str(error))


def conflict(reason: str, named: str) -> RefusedError:
    """`named` is what is in the way."""
    reason = reason.replace("; force", "; --force")
    return RefusedError(f"{reason} ({named})" if named else reason)


def _listed(use: Use) -> str:
    return ", ".join(use.names) + (", …" if use.count > len(use.names) else "")
