"""Deleting: what would go is shown before, and asked about on a terminal."""

import sys
from collections.abc import Awaitable, Callable

import typer

from administration import Admin
from administration.values import Deletion, Use
from ops.admin import show
from ops.admin.errors import RefusedError
from ops.admin.working import Wanted, run

Delete = Callable[[Admin, bool], Awaitable[Deletion]]
"""Takes whether it is a dry run."""


def remove(
    delete: Delete, *, force: bool = False, dry_run: bool, yes: bool, json_too: bool, bus: Wanted = "no"
) -> None:
    """Raises RefusedError where something would be orphaned without `force`, and where the user says no."""
    would_go = run(lambda admin: delete(admin, True))
    if dry_run:
        _tell(would_go, json_too=json_too)
        if would_go.needs_force and not force:
            show.note("this needs --force")
        return
    if would_go.needs_force and not force:
        run(
            lambda admin: delete(admin, False), bus=bus
        )  # refused there, in words that name what is in the way
        return
    if not json_too:
        confirm(f"{_verb(would_go).title()} {_named(would_go)}{_with(would_go)}?", yes=yes)
    _tell(run(lambda admin: delete(admin, False), bus=bus), json_too=json_too)


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal; a script has decided. Raises RefusedError."""
    if not yes and sys.stdin.isatty() and not typer.confirm(question, err=True):
        raise RefusedError("nothing was changed")


def _tell(deletion: Deletion, *, json_too: bool) -> None:
    if json_too:
        show.as_json(deletion)
        return
    said = f"would be {_verb(deletion)}d" if deletion.dry_run else f"is {_verb(deletion)}d"
    sys.stdout.write(f"{_named(deletion)} {said}\n")
    for use in deletion.goes:
        sys.stdout.write(f"  {_counted(use)}{_names(use)}\n")
    for use in deletion.used_by:
        sys.stdout.write(f"  used by {_counted(use)}{_names(use)}\n")


def _with(deletion: Deletion) -> str:
    """What goes with it, and what uses it."""
    goes = ", ".join(_counted(use) for use in deletion.goes)
    used = ", ".join(_counted(use) for use in deletion.used_by)
    return f"{f', with {goes}' if goes else ''}{f'; used by {used}' if used else ''}"


def _names(use: Use) -> str:
    more = f"\n    … and {use.count - len(use.names):,} more" if 0 < len(use.names) < use.count else ""
    return "".join(f"\n    {show.cell(name)}" for name in use.names) + more


def _verb(deletion: Deletion) -> str:
    """A key stays in the list, and opens nothing."""
    return "revoke" if deletion.kind == "key" else "delete"


def _named(deletion: Deletion) -> str:
    return f"{deletion.kind} {show.cell(deletion.id)}"


def _counted(use: Use) -> str:
    return f"{use.count:,} {use.kind.removesuffix('s') if use.count == 1 else use.kind}"
