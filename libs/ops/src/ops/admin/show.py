"""What a command prints: a table, one thing's fields, or JSON. Names are text of others: see `chat.safe`."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ops.admin.table import fitted, line
from ops.chat.safe import clean, one_line

_UNBOUND = 10_000
"""Columns for what is read by a program: a table is never wrapped or cut there."""


def note(text: str) -> None:
    """A message, on stderr."""
    sys.stderr.write(f"agentchat: {one_line(text, _UNBOUND)}\n")
    sys.stderr.flush()


def as_json(value: object) -> None:
    """ASCII, so that it drives no terminal."""
    sys.stdout.write(json.dumps(msgspec.to_builtins(value), indent=2) + "\n")
    sys.stdout.flush()


def things(values: Sequence[Any], columns: Mapping[str, str], *, json_too: bool) -> None:
    """A line each: `columns` maps headings to fields. Nothing at all is said on stderr."""
    if json_too:
        as_json(values)
        return
    if not values:
        note("there are none")
        return
    table(list(columns), ([getattr(value, name) for name in columns.values()] for value in values))


def thing(value: Any, *, json_too: bool) -> None:
    """One thing, a field a line."""
    if json_too:
        as_json(value)
        return
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, field in msgspec.structs.asdict(value).items():
        grid.add_row(name.replace("_", " "), Text(whole(field)))
    _print(grid)


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A line each. On a terminal that is too narrow, columns are cut or left out, and that is said."""
    texts = [[cell(value) for value in row] for row in rows]
    screen = console()
    widths = fitted(headings, texts, screen.width if screen.is_terminal else None)
    screen.print(Text(line(headings, widths), "bold"), no_wrap=True, crop=False)
    for text in texts:
        screen.print(Text(line(text, widths)), no_wrap=True, crop=False)
    if left := headings[len(widths) :]:
        note(f"too narrow for {', '.join(left)}; --json shows all")


def _print(made: Table) -> None:
    screen = console()
    if screen.is_terminal:
        screen.print(made)
        return
    with screen.capture() as captured:
        screen.print(made)
    for text in captured.get().splitlines():
        sys.stdout.write(text.rstrip() + "\n")


def cell(value: object) -> str:
    """A value on one line."""
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
            return one_line(value, 500)
        case _:
            return one_line(json.dumps(msgspec.to_builtins(value), ensure_ascii=False), 500)


def whole(value: object) -> str:
    """A value as it is, texts with their lines and structures indented."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict | list | tuple | msgspec.Struct):
        if not isinstance(value, msgspec.Struct) and not value:
            return "-"
        return clean(json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False))
    return cell(value)


def console(*, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")
    width = None if stream.isatty() else _UNBOUND
    return Console(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)
