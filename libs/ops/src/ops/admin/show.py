"""What a command prints: a table, one thing's fields, or JSON. Names are text of others: see `chat.safe`."""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ops.chat.safe import clean, one_line

_UNBOUND = 10_000
"""Columns for what is read by a program: a table is never wrapped there."""


def note(text: str) -> None:
    """A message, on stderr."""
    sys.stderr.write(f"agentchat: {one_line(text, _UNBOUND)}\n")
    sys.stderr.flush()


def as_json(value: object) -> None:
    """ASCII, so that it drives no terminal."""
    sys.stdout.write(json.dumps(msgspec.to_builtins(value), indent=2) + "\n")
    sys.stdout.flush()


def things(values: Sequence[Any], names: str = "") -> None:
    """Structs as a table, with these fields as columns, else all. Where there are none, stderr says so."""
    if not values:
        note("there are none")
        return
    fields = names.split() or values[0].__struct_fields__
    headings = [name.removesuffix("_at").replace("_", " ").upper() for name in fields]
    table(headings, ([getattr(value, name) for name in fields] for value in values))


def thing(value: Any) -> None:
    """A struct, a field a line."""
    fields = msgspec.structs.asdict(value)
    width = max(map(len, fields)) + 2
    for name, field in fields.items():
        text = whole(field).replace("\n", "\n" + " " * width)
        sys.stdout.write(f"{name.replace('_', ' '):<{width}}{text}\n")


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A line each; on a terminal that is too narrow a cell takes several."""
    screen = console()
    with screen.capture() as captured:
        screen.print(laid_out(headings, rows))
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def laid_out(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """For rich: ids stay on one line, so that they can be copied."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        made.add_column(heading, no_wrap=heading.endswith("ID"), overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell(value)) for value in row))
    return made


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
    if value and isinstance(value, dict | list | tuple | msgspec.Struct):
        return clean(json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False))
    return "-" if value in ({}, [], ()) else cell(value)


def console(*, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")
    width = None if stream.isatty() else _UNBOUND
    return Console(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)
