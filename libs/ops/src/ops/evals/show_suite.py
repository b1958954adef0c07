"""`agentchat eval show`, and the suite that commands name."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from evals.case_file import DamagedCase, read_cases
from evals.cases import Case
from evals.errors import NotACase, SuiteError, UnfitSuite
from evals.suite import SETTINGS, Suite, read_suite
from ops import printing
from ops.admin.options import AsJson
from ops.errors import RefusedError, SetupError
from ops.output import counted

SuiteFolder = Annotated[Path, typer.Argument(metavar="SUITE", help="The folder of the suite.")]


@contextmanager
def suite_errors() -> Iterator[None]:
    """Raises SetupError (exit code 2) for what is wrong with files or named runs, else RefusedError."""
    try:
        yield
    except (UnfitSuite, NotACase) as error:
        raise SetupError(str(error)) from None
    except SuiteError as error:
        raise RefusedError(str(error)) from None


def suite_at(folder: Path) -> Suite:
    """Raises SetupError."""
    if not (folder / SETTINGS).is_file():
        raise SetupError(f"{folder} is no suite: it has no {SETTINGS}, which `agentchat eval collect` makes")
    with suite_errors():
        return read_suite(folder)


def show(suite: SuiteFolder, as_json: AsJson = False) -> None:
    """Count a suite's cases, and verify them.

    By kind: agent, end, tools, language, length and rating. Exit code 1: some are damaged, which is reported.
    Exit code 2: a file is no suite's.
    """
    found = suite_at(suite)
    slices: Counter[tuple[str, str]] = Counter()
    cases, damaged = 0, []
    with suite_errors():
        for each in read_cases(found.cases):
            match each:
                case Case():
                    cases += 1
                    slices.update(each.slices.items())
                case DamagedCase():
                    damaged.append(str(each))
    if as_json:
        printing.as_json({"cases": cases, "damaged": damaged, "slices": slices_as_json(slices)})
    else:
        print_slices(slices)
    for line in damaged:
        printing.note(line)
    printing.note(counted(cases, "case"))
    if damaged:
        raise RefusedError(f"{counted(len(damaged), 'case')} damaged")


def print_slices(slices: Counter[tuple[str, str]]) -> None:
    printing.table(
        ("SLICE", "VALUE", "CASES"), [(name, value, count) for (name, value), count in _sorted(slices)]
    )


def slices_as_json(slices: Counter[tuple[str, str]]) -> list[dict[str, str | int]]:
    return [{"slice": name, "value": value, "cases": count} for (name, value), count in _sorted(slices)]


def _sorted(slices: Counter[tuple[str, str]]) -> list[tuple[tuple[str, str], int]]:
    """By name, the most frequent value first."""
    return sorted(slices.items(), key=lambda entry: (entry[0][0], -entry[1], entry[0][1]))
