"""Columns of text, made to fit a terminal: long ones are cut first, then the last ones are left out. Pure."""

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

GAP = 2
_LEAST = 24
"""Columns that are not wider are never cut; nor are those of ids, which are there to be copied."""


def fitted(headings: Sequence[str], rows: Sequence[Sequence[str]], room: int | None) -> list[int]:
    """The widths of the columns that are shown, the first ones; `room` None is without end."""
    widths = [
        max([cell_len(heading), *(cell_len(row[place]) for row in rows)])
        for place, heading in enumerate(headings)
    ]
    while room is not None and len(widths) > 1:
        cut = _cut(headings, widths, room)
        if cut is not None:
            return cut
        widths.pop()
    return widths


def line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """One line, without blanks at its end."""
    shown = (_sized(text, width) for text, width in zip(cells, widths, strict=False))
    return (" " * GAP).join(shown).rstrip()


def _cut(headings: Sequence[str], widths: Sequence[int], room: int) -> list[int] | None:
    """The widths, those of long columns smaller; None where that is not enough."""
    cut = list(widths)
    while (excess := sum(cut) + GAP * (len(cut) - 1) - room) > 0:
        place = max(range(len(cut)), key=lambda each: 0 if headings[each].endswith("ID") else cut[each])
        if headings[place].endswith("ID") or cut[place] <= _LEAST:
            return None
        cut[place] = max(_LEAST, cut[place] - excess)
    return cut


def _sized(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + "…"
