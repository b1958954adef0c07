"""Deleting: what would go is shown before, and asked about on a terminal."""

import sys
from collections.abc import Callable
from typing import Any

import msgspec
import typer

from administration.admin_values import Deletion
from contracts.admin_errors import Use
from ops import printing
from ops.errors import RefusedError

Delete = Callable[..., Deletion | None]
"""Takes `dry_run`, and `force` where there is such a thing."""


def remove(delete: Delete, given: dict[str, Any]) -> None:
    """`given` are the options of the command: `force`, `dry_run`, `yes`, `as_json`.

    Raises RefusedError where something would be orphaned without `force`, and where the user says no.
    """
    flags = {"force": given["force"]} if "force" in given else {}
    would_go = delete(dry_run=True, **flags)
    assert would_go is not None
    if not given["dry_run"]:
        if not would_go.needs_force and not given["as_json"]:
            confirm(f"{_verb(would_go).title()} {_named(would_go)}{_with(would_go)}?", yes=given["yes"])
        delete(**flags)  # where force is needed, refused in words that name what is in the way
        would_go = msgspec.structs.replace(would_go, dry_run=False)
    if given["as_json"]:
        printing.as_json(would_go)
    else:
        _print(would_go)
    if would_go.needs_force:
        printing.note("this needs --force")


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal; a script has decided. Raises RefusedError."""
    if not yes and sys.stdin.isatty() and not typer.confirm(question, err=True):
        raise RefusedError("nothing was changed")


def _print(deletion: Deletion) -> None:
    said = f"would be {_verb(deletion)}d" if deletion.dry_run else f"is {_verb(deletion)}d"
    lines = [f"{_named(deletion)} {said}"]
    for prefix, uses in (("", deletion.goes), ("used by ", deletion.used_by)):
        for use in uses:
            lines += [f"  {prefix}{_counted(use)}", *(f"    {printing.cell(name)}" for name in use.names)]
            if 0 < len(use.names) < use.count:
                lines.append(f"    … and {use.count - len(use.names):,} more")
    sys.stdout.writelines(f"{line}\n" for line in lines)


def _with(deletion: Deletion) -> str:
    """What goes with it, and what uses it."""
    goes = ", ".join(map(_counted, deletion.goes))
    used = ", ".join(map(_counted, deletion.used_by))
    return f"{f', with {goes}' if goes else ''}{f'; used by {used}' if used else ''}"


def _verb(deletion: Deletion) -> str:
    """A key stays in the list, and opens nothing."""
    return "revoke" if deletion.kind == "key" else "delete"


def _named(deletion: Deletion) -> str:
    return f"{deletion.kind} {printing.cell(deletion.id)}"


def _counted(use: Use) -> str:
    return f"{use.count:,} {use.kind.removesuffix('s') if use.count == 1 else use.kind}"
