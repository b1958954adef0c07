"""Write rows as JSON lines, CSV or Parquet, in memory that does not grow with their number.

Parquet is written by DuckDB, from a temporary file of JSON lines next to the result. DuckDB takes 65 MB, so
only `agentchat[parquet]` installs it.
"""

import contextlib
import csv
import io
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from agentchat.conversations.queries.analytics_views import Column
from agentchat.ops.errors import SetupError

Format = Literal["jsonl", "csv", "parquet"]

_JSON = msgspec.json.Encoder(decimal_format="number")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Characters that may begin a formula; the last four are full-width = + - @ (OWASP, CSV Injection)."""

_DUCKDB_TYPES = {
    "bool": "BOOLEAN",
    "float8": "DOUBLE",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "numeric": "DECIMAL(38, 10)",
    "text": "VARCHAR",
    "timestamptz": "TIMESTAMPTZ",
}
_ROWS_OF_A_GROUP = 4096
"""How many rows DuckDB holds: of 4 KB each they took 220 MB in all, and 10,240 rows 380 MB."""
_MAX_LINE = 32 * 1024 * 1024


WriteRows = Callable[[Sequence[Sequence[Any]]], object]
"""Writes some rows."""


@contextlib.contextmanager
def open_writer(form: Format, file: BinaryIO, columns: Sequence[Column], folder: Path) -> Iterator[WriteRows]:
    """Open a writer of rows to a file, which is complete at the end of the block.

    `folder` is for temporary files. Raises SetupError.
    """
    match form:
        case "jsonl":
            yield _build_line_writer(file, columns)
        case "csv":
            with _open_csv(file, columns) as write:
                yield write
        case "parquet":
            with _open_parquet(file, columns, folder) as write:
                yield write


def _build_line_writer(file: BinaryIO, columns: Sequence[Column]) -> WriteRows:
    names = [column.name for column in columns]
    return lambda rows: file.write(_JSON.encode_lines([dict(zip(names, row, strict=True)) for row in rows]))


@contextlib.contextmanager
def _open_csv(file: BinaryIO, columns: Sequence[Column]) -> Iterator[WriteRows]:
    """Open a writer of CSV by RFC 4180 with a header; no cell is a formula to a spreadsheet."""
    text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
    try:
        writer = csv.writer(text)
        writer.writerow([column.name for column in columns])
        yield lambda rows: writer.writerows([format_csv_cell(value) for value in row] for row in rows)
    finally:
        text.detach()


def format_csv_cell(value: object) -> object:
    """Return what CSV has of a value: a text that begins like a formula gets a quote before it."""
    match value:
        case str():
            return f"'{value}" if value.startswith(_FORMULA) else value
        case bool():
            return "true" if value else "false"
        case datetime():
            return msgspec.to_builtins(value)
        case _:
            return value


@contextlib.contextmanager
def _open_parquet(file: BinaryIO, columns: Sequence[Column], folder: Path) -> Iterator[WriteRows]:
    try:
        duckdb = import_module("duckdb")
    except ImportError:
        raise SetupError(
            "Parquet needs the Python package duckdb; in a checkout: .venv/bin/uv pip install duckdb"
        ) from None
    with tempfile.TemporaryDirectory(prefix=".export-", dir=folder) as temporary:
        lines, result = Path(temporary, "rows.jsonl"), Path(temporary, "rows.parquet")
        with open(lines, "wb") as written:
            yield _build_line_writer(written, columns)
        with duckdb.connect(config={"threads": 1, "temp_directory": temporary}) as connection:
            rows = connection.read_json(
                str(lines),
                columns={column.name: _DUCKDB_TYPES[column.type] for column in columns},
                format="newline_delimited",
                maximum_object_size=_MAX_LINE,
            )
            rows.write_parquet(str(result), compression="zstd", row_group_size=_ROWS_OF_A_GROUP)
        with open(result, "rb") as complete:
            shutil.copyfileobj(complete, file)
