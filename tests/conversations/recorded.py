"""The recorded histories (tests/histories): their conversations, and what was heard of them."""

import json
from pathlib import Path

import msgspec

from contracts import events
from contracts.values import Form
from conversations.event_store import mapper
from conversations.event_store.store import ConversationStore
from conversations.transfer import file_format, moving
from conversations.transfer.file_format import Carried
from runtime.postgres import Pool

FOLDER = Path(__file__).parents[1] / "histories"
WHOLE = (
    *("first_release", "shop", "sources", "failed", "seeded", "cancelled", "taken_over", "approvals"),
    *("forked", "handed_over", "compacted", "elicited", "elicitation", "rated", "erased"),
)


class Heard(msgspec.Struct, frozen=True):
    """The body of one answer, as its caller received it."""

    trace_id: str
    form: Form
    body: str


def path(name: str) -> Path:
    return FOLDER / f"{name}.jsonl"


def carried(name: str) -> Carried:
    """The one conversation of a history."""
    with path(name).open("rb") as file:
        (found,) = file_format.read(file)
    return found


def facts(found: Carried) -> list[events.Event]:
    return mapper.events_of((each.topic, each.state) for each in found.stored)


def heard(name: str) -> list[Heard]:
    return msgspec.convert(json.loads((FOLDER / f"{name}.heard.json").read_text()), list[Heard])


async def stored(store: ConversationStore, pool: Pool, name: str) -> Carried:
    """A history, as it is once it was imported."""
    found = carried(name)
    await moving.bring(store, found, await moving.planned(pool, found))
    return found
