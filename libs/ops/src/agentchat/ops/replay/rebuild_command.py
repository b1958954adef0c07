"""`agentchat replay rebuild` and `verify`: rebuild read models from the log, or compare them with it."""

import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, TypeVar

import typer

from agentchat.contracts.ids import is_uuid
from agentchat.conversations.errors import UnknownConversation
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.projections import rebuild_read_models
from agentchat.conversations.projections.apply_facts import RefusedEvent
from agentchat.conversations.projections.projection import Projection
from agentchat.conversations.projections.read_models import PROJECTIONS, build_projections
from agentchat.conversations.projections.rebuild_read_models import (
    CONNECTIONS,
    ParkedEvent,
    RebuildProgress,
    VerifiedReadModel,
)
from agentchat.ops import connections, printing
from agentchat.ops.admin.options import AsJson
from agentchat.ops.connections import NoneSuchError
from agentchat.ops.errors import SetupError
from agentchat.ops.printing import build_progress, warn
from agentchat.ops.replay.what_if_command import load_prices
from agentchat.runtime.postgres import Pool, open_pool

T = TypeVar("T")
Work = Callable[[Pool, Log, Sequence[Projection], RebuildProgress], Awaitable[T]]
_NAMES = f"{', '.join(each.name for each in PROJECTIONS)}; or all."
Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help=_NAMES)]
VerifiedNames = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME|CONVERSATION]...", help=f"A conversation's id; {_NAMES}"),
]


def choose_projections(names: Sequence[str]) -> list[Projection]:
    """Return the read models of these names, or all if there are none. Raises SetupError."""
    known = {each.name: each for each in build_projections(load_prices(None))}
    for name in names:
        if name not in known:
            raise SetupError(f"unknown read model {name!r}; choose from {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names)] or list(known.values())


def run_with_bar(
    verb: str, names: Sequence[str], work: Work[T], *, reports_parked: bool = True, stopped: str = "stopped"
) -> T:
    """Run `work` with a progress bar on stderr and return its result. Raises StackError.

    Events that are parked are reported at once if `reports_parked`.
    """
    projections = choose_projections(names)

    async def work_with_bar(url: str, _: Pool) -> T:
        with Bar(verb, reports_parked) as bar:
            async with open_pool(url, max_size=CONNECTIONS) as pool:
                return await work(pool, Log(pool), projections, bar)

    return connections.run_with_pool(work_with_bar, stopped=stopped)


class Bar(RebuildProgress):
    """A progress bar on a terminal; messages are lines on stderr."""

    def __init__(self, verb: str, reports_parked: bool = True) -> None:
        self._reports_parked = reports_parked
        self._progress = build_progress(verb)
        self._task = self._progress.add_task("events", total=None)

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def on_advance(self, position: int, head: int) -> None:
        """Show the position that was reached."""
        self._progress.update(self._task, completed=position, total=max(position, head))

    def on_park(self, name: str, refused: RefusedEvent) -> None:
        """Report an event that a read model could not apply."""
        if self._reports_parked:
            warn(self._progress, f"{name}: {_describe_parked(refused)}")


def rebuild(names: Names = None) -> None:
    """Rebuild read models from the log and update the live ones.

    Reads and writes continue. If you stop it, read models that are not finished are unchanged.
    """
    began = time.monotonic()
    stopped = "stopped; unfinished read models are unchanged"
    end = run_with_bar("rebuild", names or [], rebuild_read_models.rebuild, stopped=stopped)
    names_built = ", ".join(each.name for each in choose_projections(names or []))
    sys.stdout.write(f"rebuilt up to position {end:,} in {time.monotonic() - began:.1f} s: {names_built}\n")


def verify(names: VerifiedNames = None, as_json: AsJson = False) -> None:
    """Verify that read models match the log: rebuild them in temporary tables and compare each row.

    With a conversation's id, only the rows of that conversation are compared. Reports the first difference of
    each read model and exits with 1 if there is one. Exit code 2: no such conversation. Changes nothing.
    """
    conversations = list(dict.fromkeys(each.lower() for each in names or () if is_uuid(each.lower())))
    if len(conversations) > 1:
        raise SetupError("give one conversation at a time")
    conversation_id = next(iter(conversations), None)

    async def verify_rows(
        pool: Pool, log: Log, projections: Sequence[Projection], bar: RebuildProgress
    ) -> list[VerifiedReadModel]:
        try:
            return await rebuild_read_models.verify(
                pool, log, projections, bar, conversation_id=conversation_id
            )
        except UnknownConversation as error:
            raise NoneSuchError(str(error)) from None

    projections = [each for each in names or () if not is_uuid(each.lower())]
    found = run_with_bar("verify", projections, verify_rows, reports_parked=False)
    if as_json:
        printing.print_json(found)
    else:
        rows = [
            [one.name, one.position or 0, one.rows, sum(each.live for each in one.parked), _describe(one)]
            for one in found
        ]
        printing.print_table(["READ MODEL", "POSITION", "ROWS", "PARKED", "RESULT"], rows)
    for one in found:
        _print_details(one)
    raise typer.Exit(0 if all(one.ok for one in found) else 1)


def _describe(one: VerifiedReadModel) -> str:
    if one.position is None:
        return "never filled"
    return "differs" if one.difference else "the same"


def _describe_parked(event: RefusedEvent | ParkedEvent) -> str:
    return f"could not apply event {event.position:,} of conversation {event.conversation_id}: {event.reason}"


def _print_details(one: VerifiedReadModel) -> None:
    for each in one.parked:
        where = "the live table" if each.live else "the rebuilt table"
        printing.print_note(f"{one.name}: {where} {_describe_parked(each)}")
    if one.position is None:
        printing.print_note(f"{one.name}: no projector has filled it: `agentchat replay rebuild {one.name}`")
    if (found := one.difference) is not None:
        key = ", ".join(f"{name}={value}" for name, value in found.key.items())
        where = f"{found.table}, {key or 'its layout'}, column {found.column or '(the row)'}"
        printing.print_note(f"first difference: {where}: live {found.live!r}, rebuilt {found.rebuilt!r}")
