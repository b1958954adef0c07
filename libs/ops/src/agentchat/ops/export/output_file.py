"""Open the file of an export: readable by its owner only, and in its place once it is complete."""

import contextlib
import os
import sys
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
    partial = output.with_name(f".{output.name}.partial")
    try:
        with open(partial, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            yield file
        partial.replace(output)
    except OSError as error:
        raise SetupError(f"{output} cannot be written: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)
