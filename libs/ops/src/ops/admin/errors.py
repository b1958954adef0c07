"""What `administration` refuses, as the one line that ends a command."""

from administration.errors import AdminError, Conflict, Invalid
from administration.values import Use
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
            fields = "; ".join(
                f"{wrong.field}: {wrong.reason}" if wrong.field else wrong.reason for wrong in error.fields
            )
            return RefusedError(fields, 2)
        case Conflict():
            named = "; ".join(f"{use.kind}: {_listed(use)}" for use in error.uses if use.names)
            told = str(error).replace("; force", "; --force")
            return RefusedError(f"{told} ({named})" if named else told)
        case _:
            return RefusedError(str(error))


def _listed(use: Use) -> str:
    return ", ".join(use.names) + (", …" if use.count > len(use.names) else "")
