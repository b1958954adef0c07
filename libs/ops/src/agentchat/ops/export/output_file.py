"""Open the file of an export: readable by its owner only, and in its place once it is complete."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from agentchat.ops.errors import SetupError, StackError
from agentchat.ops.output import discard_stdout

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to this file, readable by its owner only, once it is complete; `-` is stdout.",
    ),
]


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
