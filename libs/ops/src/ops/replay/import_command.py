"""`agentchat replay import`: stores an export in the log of this system."""

import contextlib
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
import typer

from administration import admin_accounts, agent_rows
from contracts.admin_errors import NotFound
from contracts.ids import is_uuid
from conversations.event_store.store import open_store
from conversations.transfer import file_format, moving
from conversations.transfer.file_format import Carried
from conversations.transfer.moving import Names
from ops import printing
from ops.admin.options import AsJson
from ops.connections import run
from ops.errors import SetupError, StackError
from ops.output import counted
from ops.printing import progress
from runtime.postgres import Pool, connection

_MEMORY_BYTES = 16 * 1024 * 1024


class Brought(msgspec.Struct, kw_only=True):
    """Conversations by outcome; `unknown_agents` counts in how many conversations each is named."""

    dry_run: bool
    new: int = 0
    longer: int = 0
    present: int = 0
    events: int = 0
    unknown_agents: dict[str, int] = {}


def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What `export` wrote; `-`: standard input.")],
    accounts: Annotated[
        list[str] | None,
        typer.Option("--account", metavar="THERE=HERE", help="An account's id there, and here."),
    ] = None,
    agents: Annotated[
        list[str] | None, typer.Option("--agent", metavar="THERE=HERE", help="An agent's id there, and here.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check all of it; store nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Store the conversations of an export, each completely or not at all, after the whole file was checked.

    A conversation that is already here is left as it is, or gets the events that it lacks, so an import can
    be repeated. The accounts must exist here; missing agents are reported. Exit code 1: the file is not a
    complete export, or conflicts with what is stored here; nothing was stored then.
    """
    names = Names(accounts=_pairs("--account", accounts), agents=_pairs("--agent", agents))
    with _opened(file) as opened:
        done = run(lambda url, pool: _bring_in(url, pool, opened, names, dry_run=dry_run))
    for agent_id, count in done.unknown_agents.items():
        printing.note(
            f"agent {agent_id} of {counted(count, 'conversation')} does not exist here: other agents of "
            f"the account can answer; or name one by --agent {agent_id}=ID"
        )
    if as_json:
        printing.as_json(done)
        return
    would = "would be " if dry_run else ""
    sys.stdout.write(
        f"{counted(done.new, 'conversation')} {would}imported, {done.longer:,} {would}continued, "
        f"{done.present:,} here already; {counted(done.events, 'event')} {would}stored\n"
    )


def _pairs(option: str, given: list[str] | None) -> dict[str, str]:
    """Raises SetupError."""
    pairs: dict[str, str] = {}
    for text in given or ():
        there, equals, here = text.lower().partition("=")
        if not (equals and is_uuid(there) and is_uuid(here)):
            raise SetupError(f"{option} {text[:100]!r}: write two ids, THERE=HERE")
        if pairs.setdefault(there, here) != here:
            raise SetupError(f"{option}: {there} is given twice")
    return pairs


@contextlib.contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    """A file that can be read twice. Raises SetupError."""
    if name == "-":
        with tempfile.SpooledTemporaryFile(_MEMORY_BYTES) as kept:
            shutil.copyfileobj(sys.stdin.buffer, kept)
            kept.seek(0)
            yield kept  # type: ignore[misc]  # it is one in all that matters here
        return
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(Path(name).open("rb"))
        except OSError as error:
            raise SetupError(f"{name} cannot be read: {error.strerror}") from None
        if not file.seekable():
            raise SetupError(f"{name} can be read only once; use `-` and standard input")
        yield file


async def _bring_in(url: str, pool: Pool, file: BinaryIO, names: Names, *, dry_run: bool) -> Brought:
    checked = await _check(pool, file, names)
    if dry_run:
        return checked
    done = Brought(dry_run=False, unknown_agents=checked.unknown_agents)
    file.seek(0)
    async with open_store(url) as store:
        with progress("importing") as bar:
            task = bar.add_task("", total=checked.new + checked.longer + checked.present)
            for there in file_format.read(file):
                carried = moving.renamed(there, names)
                move = await moving.planned(pool, carried)
                if move.kind != "present":
                    await moving.bring(store, carried, move)
                _count(done, carried, move)
                bar.advance(task)
    return done


async def _check(pool: Pool, file: BinaryIO, names: Names) -> Brought:
    """Read the complete file before anything is stored; returns what an import would do.

    Raises UnfitFile, Clash, StackError.
    """
    found, unknown = Brought(dry_run=True), Counter[str]()
    accounts, owners = set[str](), dict[str, str | None]()
    with progress("checking") as bar:
        task = bar.add_task("", total=None)
        for there in file_format.read(file):
            carried = moving.renamed(there, names)
            if carried.account_id not in accounts:
                await _check_account(pool, there, carried)
                accounts.add(carried.account_id)
            for agent_id in carried.agents:
                if agent_id not in owners:
                    owners[agent_id] = await _owner(pool, agent_id)
                unknown[agent_id] += owners[agent_id] != carried.account_id
            _count(found, carried, await moving.planned(pool, carried))
            bar.advance(task)
    found.unknown_agents = dict(+unknown)
    return found


async def _check_account(pool: Pool, there: Carried, carried: Carried) -> None:
    async with connection(pool) as conn:
        try:
            await admin_accounts.present(conn, carried.account_id)
        except NotFound:
            raise StackError(
                f"line {carried.line:,}: account {carried.account_id} is not here; name one that is, "
                f"by --account {there.account_id}=ID"
            ) from None


async def _owner(pool: Pool, agent_id: str) -> str | None:
    async with connection(pool) as conn:
        try:
            return (await agent_rows.found(conn, agent_id)).account_id
        except NotFound:
            return None


def _count(done: Brought, carried: Carried, move: moving.Move) -> None:
    setattr(done, move.kind, getattr(done, move.kind) + 1)
    if move.kind != "present":
        done.events += sum(each.version > move.have for each in carried.stored)
