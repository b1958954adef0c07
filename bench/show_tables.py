"""Tables on a terminal."""

from collections.abc import Iterable

import rich.table
from rich.console import Console

from bench.report import Table

_PAPER = 140


def show(console: Console, tables: Iterable[Table]) -> None:
    """Print them; into a file at a width of its own."""
    if not console.is_terminal:
        console.width = _PAPER
    for table in tables:
        console.print(_shown(table))


def _shown(table: Table) -> rich.table.Table:
    shown = rich.table.Table(title=table.title, title_justify="left")
    for place, column in enumerate(table.columns):
        shown.add_column(column, justify="right" if place else "left")
    for row in table.rows:
        shown.add_row(*row)
    return shown
