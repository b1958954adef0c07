"""What is in a file of the archive: a row for each event, in the order of the log, as Parquet.

The columns are for those who query the files (docs/analyse/archive.md); `event`, `hash` and the place of an
event are its row of the log byte for byte.
"""

import io
from collections.abc import Sequence
from datetime import datetime

import msgspec
from arro3.core import Array, DataType, Field, Schema, Table
from arro3.io import read_parquet, write_parquet

from conversations.errors import UnreadableArchive

FORMAT = "agentchat.archive"
FORMAT_VERSION = "1"
_ROWS_A_GROUP = 5_000
_ROWS_A_BATCH = 1_000

_TEXT, _NUMBER = DataType.string(), DataType.int64()
_COLUMNS = {
    "position": _NUMBER,
    "conversation_id": _TEXT,
    "account_id": _TEXT,
    "version": _NUMBER,
    "type": _TEXT,
    "created_at": DataType.timestamp("us", tz="UTC"),
    "trace_id": _TEXT,
    "event": _TEXT,
    "hash": DataType.binary(),
}
_SCHEMA = Schema([Field(name, type_, nullable=False) for name, type_ in _COLUMNS.items()])
_WANTED = [name for name in _COLUMNS if name not in ("created_at", "trace_id")]


class ArchivedRow(msgspec.Struct, frozen=True):
    """A row of the log."""

    position: int
    conversation_id: str
    account_id: str
    version: int
    topic: str
    state: bytes
    hash: bytes


class _Named(msgspec.Struct):
    at: datetime
    trace_id: str


def encode(rows: Sequence[ArchivedRow]) -> bytes:
    """The file of these rows. Raises UnreadableArchive for an event that is no JSON of ours."""
    rows = sorted(rows, key=lambda row: row.position)
    try:
        named = [msgspec.json.decode(row.state, type=_Named) for row in rows]
        texts = [row.state.decode() for row in rows]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableArchive(f"an event cannot be archived: {error}") from error
    times = Array([round(each.at.timestamp() * 1_000_000) for each in named], _NUMBER)
    arrays = {
        "position": Array([row.position for row in rows], _NUMBER),
        "conversation_id": Array([row.conversation_id for row in rows], _TEXT),
        "account_id": Array([row.account_id for row in rows], _TEXT),
        "version": Array([row.version for row in rows], _NUMBER),
        "type": Array([row.topic for row in rows], _TEXT),
        "created_at": times.cast(_COLUMNS["created_at"]),
        "trace_id": Array([each.trace_id for each in named], _TEXT),
        "event": Array(texts, _TEXT),
        "hash": Array([row.hash for row in rows], _COLUMNS["hash"]),
    }
    file = io.BytesIO()
    write_parquet(
        Table.from_arrays([arrays[name] for name in _COLUMNS], schema=_SCHEMA),
        file,
        compression="zstd(3)",
        key_value_metadata={"format": FORMAT, "version": FORMAT_VERSION},
        max_row_group_size=_ROWS_A_GROUP,
    )
    return file.getvalue()


def decode(data: bytes) -> list[ArchivedRow]:
    """The rows of a file. Raises UnreadableArchive."""
    rows: list[ArchivedRow] = []
    try:
        for batch in read_parquet(io.BytesIO(data), batch_size=_ROWS_A_BATCH):
            columns = [batch.column(name).to_pylist() for name in _WANTED]
            for row in zip(*columns, strict=True):
                found = dict(zip(_WANTED, row, strict=True))
                state, hash_ = found.pop("event").encode(), bytes(found.pop("hash"))
                rows.append(ArchivedRow(topic=found.pop("type"), state=state, hash=hash_, **found))
    except Exception as error:  # whatever the library says of bytes that are no Parquet
        raise UnreadableArchive(f"a file of the archive cannot be read: {error}") from error
    return rows
