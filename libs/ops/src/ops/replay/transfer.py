"""`agentchat replay export` and `import`."""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from contracts.ids import is_uuid
from ops import printing
from ops.admin.options import AsJson
from ops.errors import SetupError, StackError
from ops.output import counted, forget_stdout
from ops.replay.exporting import ExportOptions, write
from ops.replay.importing import bring_in

_MEMORY_BYTES = 16 * 1024 * 1024


def export(
    conversations: Annotated[
        list[str] | None, typer.Argument(metavar="[CONVERSATION]...", help="Ids of conversations.")
    ] = None,
    account: Annotated[
        str | None, typer.Option(metavar="ACCOUNT", help="All conversations of this account.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All conversations of all accounts.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write this file, readable by its owner only, when it is complete.",
        ),
    ] = None,
) -> None:
    """Write conversations as JSON lines, one event per line, for `agentchat replay import` elsewhere.

    Events are written as they are stored, with ids and versions. Active runs are left out. Accounts, agents
    and knowledge are not in it. Exit code 2: a conversation or account is unknown.
    """
    if sum((bool(conversations), account is not None, everything)) != 1:
        raise SetupError("choose what to export: ids of conversations, or --account, or --all")
    if output is None and sys.stdout.isatty():
        raise SetupError("an export is not written to a terminal: write it to a file, by > or --output")
    wanted = ExportOptions(tuple(dict.fromkeys(each.lower() for each in conversations or ())), account)
    with _written(output) as file:
        done = write(wanted, file)
    for conversation_id, left in done.left.items():
        printing.note(f"conversation {conversation_id}: {left} events of an active run were left out")
    printing.note(f"{counted(done.conversations, 'conversation')}, {counted(done.events, 'event')}")


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
    with _opened(file) as opened:
        done = bring_in(opened, _pairs("--account", accounts), _pairs("--agent", agents), dry_run=dry_run)
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


@contextlib.contextmanager
def _written(output: Path | None) -> Iterator[BinaryIO]:
    """Standard output, or a file that takes its name when all is in it. Raises SetupError, StackError."""
    if output is None:
        try:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            forget_stdout()
            raise StackError("the reader of the export has closed the pipe") from None
        return
    partial = output.with_name(f".{output.name}.partial")
    try:
        with open(partial, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            yield file
        partial.replace(output)
    except OSError as error:
        raise SetupError(f"{output} cannot be written: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)
