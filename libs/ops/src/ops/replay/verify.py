"""`agentchat replay verify`."""

from collections.abc import Sequence

import typer

from conversations.event_store.log import Log
from conversations.projections import verifying
from conversations.projections.projection import Projection
from conversations.projections.rebuilding import Watch
from conversations.projections.verifying import VerifiedReadModel
from ops.admin import show
from ops.admin.options import AsJson
from ops.admin.show import note
from ops.output import INTERRUPTED
from ops.replay import read_models
from ops.replay.read_models import parked
from ops.replay.rebuild import Names
from runtime.postgres import Pool


def verify(names: Names = None, as_json: AsJson = False) -> None:
    """Prove that read models say what the log says: build them in a scratch schema, and compare row by row.

    Names the first difference of each. Exit code 1 if there is one. Changes nothing.
    """

    async def work(
        pool: Pool, log: Log, projections: Sequence[Projection], watch: Watch
    ) -> list[VerifiedReadModel]:
        return await verifying.verify(pool, log, projections, watch=watch)

    try:
        found = read_models.run("verify", names or [], work, reports_parked=False)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        show.as_json(found)
    else:
        show_verified(found)
    for one in found:
        _tell(one)
    raise typer.Exit(0 if all(one.ok for one in found) else 1)


def show_verified(found: Sequence[VerifiedReadModel]) -> None:
    """A read model a line."""
    rows = [[one.name, one.position, f"{one.rows:,}", len(_live(one)), _result(one)] for one in found]
    show.table(["READ MODEL", "POSITION", "SAME ROWS", "PARKED", "RESULT"], rows)


def _live(one: VerifiedReadModel) -> list[object]:
    return [each for each in one.parked if each.live]


def _result(one: VerifiedReadModel) -> str:
    if one.stored is None:
        return "never filled"
    if one.stored != one.version:
        return f"of version {one.stored}"
    return "differs" if one.difference else "the same"


def _tell(one: VerifiedReadModel) -> None:
    """What the table has no room for, on stderr."""
    for each in one.parked:
        where = "the live one" if each.live else "the one built now"
        note(f"{one.name}: {where} {parked(each.position, each.conversation_id)}: {each.reason}")
    if one.stored != one.version:
        note(f"{one.name}: this program's version is {one.version}: `agentchat replay rebuild {one.name}`")
    if one.difference is not None:
        key = ", ".join(f"{name}={value}" for name, value in one.difference.key.items())
        column = one.difference.column or "(the row)"
        live, rebuilt = one.difference.live, one.difference.rebuilt
        where = f"{one.difference.table}, {key or 'its layout'}, column {column}"
        note(f"first difference: {where}: live {live!r}, rebuilt {rebuilt!r}")
