"""Print tables, fields, JSON and progress bars. Control characters in foreign text are replaced."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from agentchat.ops.terminal_text import clean, shorten

_UNBOUND = 10_000
"""Width if a program reads the output: tables are not wrapped then."""
_GAP = 2
_LEAST = 20
"""The least width of a column of text."""
_LONGEST = 80
_NAME = 11
"""The least width of a name before its text."""


def print_note(text: str) -> None:
    """Print a message on stderr."""
    sys.stderr.write(f"agentchat: {shorten(text, _UNBOUND)}\n")
    sys.stderr.flush()


def print_json(value: object) -> None:
    """Print a value as JSON, in ASCII so that it cannot control a terminal."""
    sys.stdout.write(json.dumps(msgspec.to_builtins(value), indent=2) + "\n")
    sys.stdout.flush()


def print_rows(values: Sequence[Mapping[str, Any]]) -> None:
    """Print JSON objects as a table of the fields that have plain values in some of them."""
    names = dict.fromkeys(name for value in values for name in value)
    fields = [name for name in names if any(_is_plain(value.get(name)) for value in values)]
    headings = [name.removesuffix("_at").replace("_", " ").upper() for name in fields]
    print_table(headings, ([_parse_time(name, value.get(name)) for name in fields] for value in values))


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float)


def _parse_time(name: str, value: object) -> object:
    if isinstance(value, str) and name.endswith(("_at", "_until")):
        return datetime.fromisoformat(value)
    return value


def print_record(value: Mapping[str, Any]) -> None:
    """Print a JSON object, one field per line."""
    width = max(map(len, value), default=0) + 2
    for name, field in value.items():
        text = format_value(field).replace("\n", "\n" + " " * width)
        sys.stdout.write(f"{name.replace('_', ' '):<{width}}{text}\n")


def print_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print one row per line; ids are never wrapped, so that they can be copied.

    A row that is too wide for the terminal is printed as a block of fields. Without a terminal, texts over
    80 characters are cut with an ellipsis; `--json` has all of it. If there are no rows, a line on stderr
    says so.
    """
    cells = [[format_cell(value) for value in row] for row in rows]
    if not cells:
        print_note("nothing found")
        return
    screen = open_console()
    if not screen.is_terminal:
        cells = [[_cut(heading, text) for heading, text in zip(headings, row, strict=True)] for row in cells]
    if (table := lay_out(headings, cells, screen.width)) is not None:
        _write(screen, table)
        return
    for row in cells:
        print_texts(zip(headings, row, strict=True))
        sys.stdout.write("\n")


def lay_out(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Table | None:
    """Lay out a table of this width; texts take 20 columns at least. Return None if that is too wide."""
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    least = -_GAP
    for heading, *texts in zip(headings, *rows, strict=True):
        widest = max(map(cell_len, (heading, *texts)))
        narrowest = widest if _is_id(heading) else min(widest, _LEAST)
        table.add_column(heading, min_width=narrowest, no_wrap=_is_id(heading), overflow="fold")
        least += narrowest + _GAP
    for row in rows:
        table.add_row(*map(Text, row))
    return table if least <= width else None


def print_texts(named: Iterable[tuple[str, str]]) -> None:
    """Print one name and text per line; on a terminal, long texts are wrapped."""
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    grid.add_column(no_wrap=True, min_width=_NAME)
    grid.add_column(overflow="fold")
    for name, text in named:
        grid.add_row(name, Text(format_cell(text)))
    _write(open_console(), grid)


def _write(screen: Console, printed: Table) -> None:
    with screen.capture() as captured:
        screen.print(printed)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _cut(heading: str, text: str) -> str:
    if _is_id(heading) or cell_len(text) <= _LONGEST:
        return text
    return set_cell_size(text, _LONGEST - 1).rstrip() + "…"


def _is_id(heading: str) -> bool:
    return heading.endswith("ID")


def format_cell(value: object) -> str:
    """Format a value on one line."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.3g}"
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%SZ")
        case str():
            return shorten(value, 500)
        case _:
            return shorten(json.dumps(msgspec.to_builtins(value), ensure_ascii=False), 500)


def format_value(value: object) -> str:
    """Format a complete value: texts with their lines, structures indented."""
    if isinstance(value, str):
        return clean(value)
    if value and isinstance(value, dict | list | tuple | msgspec.Struct):
        return clean(json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False))
    return "-" if value in ({}, [], ()) else format_cell(value)


def open_console(*, stderr: bool = False) -> Console:
    """Open a rich console that never wraps for programs and replaces unencodable characters."""
    stream = sys.stderr if stderr else sys.stdout
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")
    width = None if stream.isatty() else _UNBOUND
    return Console(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)


def build_progress(verb: str) -> Progress:
    """Build a progress bar, which shows on a terminal only."""
    screen = open_console(stderr=True)
    return Progress(
        TextColumn(verb),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    )


def warn(bar: Progress, text: str) -> None:
    """Print a line on stderr, above the bar if there is one."""
    line: Any = f"agentchat: {shorten(text, 1000)}"
    bar.console.print(line, soft_wrap=True)
