"""`agentchat replay feed`."""

import sys
from typing import Annotated

import typer

from ops.admin import show
from ops.admin.options import AsJson, Yes
from ops.admin.removal import confirm
from ops.output import INTERRUPTED
from ops.replay import refeeding


def feed(
    start: Annotated[int, typer.Option("--from", help="The log position to begin at; 1: the whole log.")],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Empty the EVENTS stream and feed it again from the log, in order, while everything runs.

    The projector refills a lost EVENTS by itself with what it would have kept; this is for older events, and
    for consumers that are to begin anew. Consumers stay, and get events again that they have had: they know
    them by Chat-Log-Position. Exit code 2: there is no such position.
    """
    oldest = refeeding.check(start)
    held = f"which holds the log from position {oldest:,} on" if oldest else "which is empty"
    confirm(f"Empty EVENTS, {held}, and feed it from position {start:,}?", yes=yes)
    try:
        done = refeeding.run(start)
    except KeyboardInterrupt:
        show.note("stopped; a running projector goes on from here")
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        show.as_json(done)
        return
    sys.stdout.write(
        f"EVENTS holds the log from position {done.first:,} to {done.last:,}; "
        f"{done.published:,} events were published in {done.seconds:.1f} s\n"
    )
