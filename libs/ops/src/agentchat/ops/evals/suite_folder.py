"""Open the suite that a command names, and report what is wrong with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from agentchat.evals.errors import NotACase, SuiteError, UnfitSuite
from agentchat.evals.suite import SETTINGS, Suite, read_suite
from agentchat.ops.errors import RefusedError, SetupError

SuiteFolder = Annotated[Path, typer.Argument(metavar="SUITE", help="The folder of the suite.")]


@contextmanager
def translate_suite_errors() -> Iterator[None]:
    """Raise SetupError (exit code 2) for errors in files or named runs, else RefusedError."""
    try:
        yield
    except (UnfitSuite, NotACase) as error:
        raise SetupError(str(error)) from None
    except SuiteError as error:
        raise RefusedError(str(error)) from None


def open_suite(folder: Path) -> Suite:
    """Read the suite. Raises SetupError."""
    if not (folder / SETTINGS).is_file():
        raise SetupError(f"{folder} is not a suite (no {SETTINGS}); create one with `agentchat eval collect`")
    with translate_suite_errors():
        return read_suite(folder)
