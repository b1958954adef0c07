"""Conversations out of the log into a file, and out of a file into a store: each run all or nothing."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from contracts import events, wire
from conversations.compacted_erasures import is_compacted
from conversations.errors import ConversationsError
from conversations.event_store import mapper
from conversations.event_store.log import Log, LogEntry
from conversations.event_store.store import ConversationStore
from conversations.transfer.file_format import Carried, FileEvent, settled, settled_counts
from runtime.postgres import Pool

PIECE = 500
"""So many events are stored at once, or one run: readers of the log wait for an append that is under way."""


class Clash(ConversationsError):  # noqa: N818 - a state of things
    """A conversation of a file is here too, and cannot become what it is there."""


class Outgoing(msgspec.Struct, frozen=True):
    """The entries of a conversation that can be moved; `left` more belong to a run that is under way."""

    entries: tuple[LogEntry, ...]
    left: int


class Move(msgspec.Struct, frozen=True):
    """What is to be done with a conversation of a file: to store what lies after version `have`."""

    kind: Literal["new", "longer", "present"]
    have: int


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of accounts and agents there, and what they are here."""

    accounts: Mapping[str, str] = {}
    agents: Mapping[str, str] = {}


async def outgoing(log: Log, conversation_id: str) -> Outgoing:
    """What can be moved of a conversation now. Raises DatabaseUnavailable, UnreadableEvent."""
    entries = await log.rows(conversation_id)
    kept = settled([entry.event for entry in entries])
    return Outgoing(tuple(entries[:kept]), len(entries) - kept)


def renamed(carried: Carried, names: Names) -> Carried:
    """The conversation with the accounts and agents of here; what names none of them keeps its bytes."""
    return msgspec.structs.replace(
        carried,
        account_id=names.accounts.get(carried.account_id, carried.account_id),
        agents=frozenset(names.agents.get(each, each) for each in carried.agents),
        stored=tuple(_renamed(each, names) for each in carried.stored),
    )


async def planned(pool: Pool, carried: Carried) -> Move:
    """What its import will be. Raises Clash, DatabaseUnavailable."""
    here = await Log(pool).rows(carried.conversation_id)
    if not here:
        if await is_compacted(pool, carried.conversation_id):
            raise Clash(f"line {carried.line:,}: conversation {carried.conversation_id} was erased here")
        return Move("new", carried.stored[0].version - 1)
    both = min(len(here), len(carried.stored))
    if any(_as_stored(mine) != theirs for mine, theirs in zip(here, carried.stored, strict=False)):
        erased = isinstance(here[0].event, events.ConversationErased)
        raise Clash(
            f"line {carried.line:,}: conversation {carried.conversation_id} "
            + ("was erased here" if erased else "is here with other events")
        )
    if both == len(carried.stored):
        return Move("present", here[-1].version)
    if settled([entry.event for entry in here]) != both:
        raise Clash(
            f"line {carried.line:,}: a run of conversation {carried.conversation_id} is under way here"
        )
    return Move("longer", here[-1].version)


async def bring(store: ConversationStore, carried: Carried, move: Move) -> None:
    """Store what is not here yet, in pieces after which no run is under way: where it breaks off, the
    conversation is a shorter one. Raises VersionConflict where it has changed since, DatabaseUnavailable.
    """
    lacking = [each for each in carried.stored if each.version > move.have]
    for piece in _pieces(lacking):
        facts = [(each.topic, each.state) for each in piece]
        await store.append_stored(carried.conversation_id, piece[0].version - 1, facts)


def _pieces(lacking: Sequence[FileEvent]) -> Iterator[Sequence[FileEvent]]:
    stored = [mapper.event_of(each.topic, each.state) for each in lacking]
    # A fork whose copies are not all there is erased after a minute.
    first = stored[0] if stored else None
    copies = first.copies if isinstance(first, events.ConversationForked) else msgspec.UNSET
    begin = end = 0
    for count in settled_counts(stored):
        if count <= (copies or 0):
            continue
        if count - begin > PIECE and end > begin:
            yield lacking[begin:end]
            begin = end
        end = count
    if begin < len(lacking):
        yield lacking[begin:]


def _as_stored(entry: LogEntry) -> FileEvent:
    return FileEvent(entry.version, entry.topic, entry.state)


def _renamed(stored: FileEvent, names: Names) -> FileEvent:
    if not (names.accounts or names.agents):
        return stored
    event: dict[str, Any] = msgspec.json.decode(stored.state)
    changed = _with_names(event, names)
    return stored if changed == event else FileEvent(stored.version, stored.topic, wire.encode(changed))


def _with_names(fact: dict[str, Any], names: Names) -> dict[str, Any]:
    """With other ids in the fields that facts have for them, and in what an erased conversation has spent."""
    changed = dict(fact)
    for field, of in (("account_id", names.accounts), ("agent_id", names.agents)):
        if field in changed:
            changed[field] = of.get(changed[field], changed[field])
    if "spent" in changed:
        changed["spent"] = [_with_names(each, names) for each in changed["spent"]]
    return changed
