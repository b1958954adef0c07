"""Convert an XLSX file by openpyxl: each sheet is a table under its name."""

import io
import zipfile
from collections.abc import Iterator
from html import escape
from itertools import islice
from typing import Any

import openpyxl

from agentchat.knowledge.reading.file_errors import ConvertedFile, UnreadableFile, refuse_swollen

MOST_ROWS = 10_000
"""The most rows that are read of a file."""

MOST_COLUMNS = 200
_OLE = bytes.fromhex("d0cf11e0a1b11ae1")


def convert_to_html(content: bytes) -> ConvertedFile:
    """Convert the values of the cells, not their formulas. Warnings say which rows and columns are left out.

    Raises UnreadableFile, and whatever openpyxl raises if the file is broken.
    """
    if content.startswith(_OLE):
        raise UnreadableFile("is encrypted, or of an Excel before 2007")
    refuse_swollen(zipfile.ZipFile(io.BytesIO(content)))
    book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    warnings: list[str] = []
    left, parts = MOST_ROWS, []
    for sheet in book.worksheets:
        sheet.reset_dimensions()  # the file may claim any
        filled = (row for row in sheet.iter_rows(values_only=True) if any(cell is not None for cell in row))
        rows = list(islice(filled, left))
        left -= len(rows)
        if not left and next(filled, None) is not None:
            warnings.append(f"only its first {MOST_ROWS:,} rows are read")
        if any(len(row) > MOST_COLUMNS for row in rows):
            warnings.append(f"only the first {MOST_COLUMNS} columns of the sheet {sheet.title} are read")
        parts += [f"<h2>{escape(sheet.title)}</h2>", "<table>", *_render_rows(rows), "</table>"]
    return ConvertedFile("\n".join(parts), tuple(dict.fromkeys(warnings)))


def _render_rows(rows: list[tuple[Any, ...]]) -> Iterator[str]:
    for row in rows:
        cells = (f"<td>{escape(_format_value(value))}</td>" for value in row[:MOST_COLUMNS])
        yield f"<tr>{''.join(cells)}</tr>"


def _format_value(value: Any) -> str:
    return "" if value is None else str(value)
