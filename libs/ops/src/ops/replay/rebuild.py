"""`agentchat replay rebuild`."""

import sys
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from conversations.event_store.log import Log
from conversations.projections import rebuilding
from conversations.projections.projection import Projection
from conversations.projections.rebuilding import Watch
from ops.admin.show import note
from ops.output import INTERRUPTED
from ops.replay import read_models
from runtime.postgres import Pool

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME]...",
        help="conversations, messages, open_runs, usage, runs, tools, approvals, storage; or all.",
    ),
]


def rebuild(names: Names = None) -> None:
    """Build read models anew from the log, beside the live ones, and swap them when they are up to date.

    Writes and reads go on meanwhile. Stopped or killed, it leaves the live tables as they are, and the next
    start goes on from where it was.
    """

    async def work(pool: Pool, log: Log, projections: Sequence[Projection], watch: Watch) -> int:
        return min((await rebuilding.rebuild(pool, log, projections, watch=watch)).values())

    began = time.monotonic()
    try:
        end = read_models.run("rebuild", names or [], work)
    except KeyboardInterrupt:
        note("stopped; the live tables are as they were, and the next rebuild goes on from here")
        raise typer.Exit(INTERRUPTED) from None
    names_built = ", ".join(each.name for each in read_models.chosen(names or []))
    sys.stdout.write(f"rebuilt up to position {end:,} in {time.monotonic() - began:.1f} s: {names_built}\n")
