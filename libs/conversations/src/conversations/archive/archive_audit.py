"""Verifies the chain of hashes over what is archived, file by file, up to the seals in the index."""

import itertools
from collections.abc import Collection

import msgspec

from conversations.archive.archive import Archive, ArchivedConversation
from conversations.archive.parquet_file import ArchivedRow
from conversations.chain.auditing import BrokenChain
from conversations.chain.links import LINK_BYTES, link_of, seal_of
from conversations.errors import UnreadableArchive

_ENTRIES = 500


class ArchiveAudit(msgspec.Struct, kw_only=True):
    """What was found of so many `events`, which the log itself does not have."""

    conversations: int = 0
    events: int = 0
    broken: list[BrokenChain] = []


async def audit_archive(archive: Archive, conversations: Collection[str] | None = None) -> ArchiveAudit:
    """Verify every archived conversation, or those of `conversations`. Raises DatabaseUnavailable."""
    found, after = ArchiveAudit(), ""
    while entries := await archive.entries(after, _ENTRIES):
        for entry in entries:
            if entry.in_log or (conversations is not None and entry.conversation_id not in conversations):
                continue
            found.conversations += 1
            found.events += entry.version
            if (broken := await _broken(archive, entry)) is not None:
                found.broken.append(broken)
        after = entries[-1].conversation_id
    return found


async def _broken(archive: Archive, entry: ArchivedConversation) -> BrokenChain | None:
    try:
        rows = await archive.rows_of(entry)
    except UnreadableArchive as error:
        current = await archive.find(entry.conversation_id)
        if current is None or current.generation != entry.generation:
            return None  # it has come back, or its file was rewritten, since the index was read
        return _at(entry, entry.version, entry.last_position, str(error))
    for before, row in itertools.pairwise([None, *rows]):
        assert row is not None, "only the first is"
        if (reason := _fault(before, row)) is not None:
            return _at(entry, row.version, row.position, reason)
    if seal_of(rows[-1].hash[-LINK_BYTES:]) != entry.seal or rows[-1].position != entry.last_position:
        return _at(entry, entry.version, entry.last_position, "it is not what was archived")
    return None


def _fault(before: ArchivedRow | None, row: ArchivedRow) -> str | None:
    own = row.hash[:-LINK_BYTES]
    if row.version != (1 if before is None else before.version + 1):
        return "the event before it is missing"
    if before is not None and row.position <= before.position:
        return "its position is before that of the event before it"
    if bool(own) == (before is not None):
        return "it begins a chain of its own" if own else "its chain has no beginning"
    previous = own if before is None else before.hash[-LINK_BYTES:]
    link = link_of(previous, row.conversation_id, row.version, row.position, row.topic, row.state)
    return None if row.hash[-LINK_BYTES:] == link else "it is not what was stored"


def _at(entry: ArchivedConversation, version: int, position: int, reason: str) -> BrokenChain:
    return BrokenChain(
        conversation_id=entry.conversation_id,
        version=version,
        position=position,
        reason=f"in the archive: {reason}",
    )
