"""Record an export and open its file: readable by its owner only, in its place once it is complete."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, BinaryIO

import psycopg
import typer

from agentchat.administration.audit_rows import record
from agentchat.ops.admin.admin_client import name_actor
from agentchat.ops.errors import SetupError, StackError
from agentchat.ops.printing import print_note
from agentchat.ops.terminal_text import discard_stdout
from agentchat.runtime.postgres import Pool, acquire_connection

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to this file, readable by its owner only, once it is complete; `-` is stdout.",
    ),
]


async def record_export(pool: Pool, kind: str, wanted: Mapping[str, object]) -> None:
    """Add an audit row for an export with the `wanted` filter. Analysts and standbys can only read."""
    given = {name: value for name, value in wanted.items() if value}
    try:
        async with acquire_connection(pool) as conn:
            await record(conn, name_actor(), "export", kind, str(given.get("account_id", "all")), after=given)
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction):
        print_note("not in the audit log: this login may only read")


@contextlib.contextmanager
def open_output(output: Path | None) -> Iterator[BinaryIO]:
    """Open stdout, or a file that is renamed when complete.

    Raises:
        SetupError, StackError
    """
    if output is None and sys.stdout.isatty():
        raise SetupError("refusing to write an export to a terminal: use --output or >")
    if output is None or str(output) == "-":
        try:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            discard_stdout()
            raise StackError("the reader closed the pipe before the export was complete") from None
        return
    if output.exists() and not output.is_file():
        raise SetupError(f"{output} is not a file: to write to a device or pipe, use > instead of --output")
    try:
        number, name = tempfile.mkstemp(".partial", f".{output.name}.", output.parent)
        try:
            with open(number, "wb") as file:
                yield file
            Path(name).replace(output)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        raise SetupError(f"{output} cannot be written: {error.strerror or error}") from None
