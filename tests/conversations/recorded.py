"""The recorded histories (tests/histories): exported conversations, and the answers to their callers."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agentchat.contracts import events, ids
from agentchat.contracts.values import Form
from agentchat.conversations.conversation_export import EndLine, EventLine, FileHeader
from agentchat.conversations.event_store import mapper
from agentchat.conversations.event_store.conversation_store import ConversationStore
from tests.conversations.given import AT, trace

FOLDER = Path(__file__).parents[1] / "histories"
WHOLE = (
    *("first_release", "shop", "sources", "failed", "seeded", "cancelled", "taken_over", "approvals"),
    *("forked", "handed_over", "compacted", "elicited", "elicitation", "rated", "erased", "warned"),
    *("client_tool", "busy"),
)
PRO, LOAD = "019a0000-0000-7000-8000-000000000001", "019a0000-0000-7000-8000-000000000003"
"""Accounts of the histories."""
SHOP_AGENT = "019a0000-0000-7000-8000-000000000011"


class RecordedEvent(msgspec.Struct, frozen=True):
    version: int
    topic: str
    state: bytes


class RecordedConversation(msgspec.Struct, frozen=True):
    conversation_id: str
    stored: tuple[RecordedEvent, ...]

    @property
    def account_id(self) -> str:
        first = mapper.decode_stored(self.stored[0].topic, self.stored[0].state)
        assert isinstance(first, events.ConversationStarted | events.ConversationErased)
        return first.account_id

    @property
    def json_events(self) -> list[dict[str, object]]:
        return [json.loads(each.state) for each in self.stored]

    def find_values(self, field: str) -> set[str]:
        """The values of a field of the events, for example `agent_id`."""
        pattern = f'"{field}":"([^"]+)"'.encode()
        return {found.decode() for each in self.stored for found in re.findall(pattern, each.state)}


class Heard(msgspec.Struct, frozen=True):
    """The body of one answer, as its caller received it."""

    trace_id: str
    form: Form
    body: str


def get_path(name: str) -> Path:
    return FOLDER / f"{name}.jsonl"


def encode_carried(name: str) -> RecordedConversation:
    """The one conversation of a history."""
    lines = [
        _decoder.decode(line)
        for line in get_path(name).read_bytes().splitlines()
        if line.startswith(b'{"line"')
    ]
    found = [line for line in lines if isinstance(line, EventLine)]
    return RecordedConversation(
        found[0].conversation_id,
        tuple(
            RecordedEvent(line.version, mapper.read_topic(bytes(line.event)), bytes(line.event))
            for line in found
        ),
    )


def rename_ids(
    conversation: RecordedConversation, new_ids: Mapping[str, str], *, own_runs: bool = False
) -> RecordedConversation:
    """The conversation with other ids; `own_runs`: and with new ids of its own, its runs and messages."""
    ids_by_old = dict(new_ids)
    if own_runs:
        own = {conversation.conversation_id}
        own |= conversation.find_values("trace_id") | conversation.find_values("message_id")
        for old in own:
            ids_by_old[old] = ids.make_id() if "-" in old else ids.make_id().replace("-", "")
    stored = []
    for each in conversation.stored:
        state = each.state
        for old, new in ids_by_old.items():
            state = state.replace(old.encode(), new.encode())
        stored.append(RecordedEvent(each.version, each.topic, state))
    conversation_id = conversation.conversation_id
    return RecordedConversation(ids_by_old.get(conversation_id, conversation_id), tuple(stored))


def build_facts(found: RecordedConversation) -> list[events.Event]:
    return [mapper.decode_stored(each.topic, each.state) for each in found.stored]


def render_heard(name: str) -> list[Heard]:
    return msgspec.convert(json.loads((FOLDER / f"{name}.heard.json").read_text()), list[Heard])


async def store_recorded(store: ConversationStore, found: RecordedConversation) -> None:
    """Append a recorded conversation; before an erasure stands what it erases."""
    before = found.stored[0].version - 1
    if before:
        began = events.ConversationStarted(trace_id=trace("before"), at=AT, account_id=found.account_id)
        described = events.ConversationDescribed(trace_id=trace("before"), at=AT, title="", metadata={})
        erased = mapper.encode_pairs([began, *[described] * (before - 1)])
        await store.append_stored(found.conversation_id, 0, erased)
    await store.append_stored(
        found.conversation_id, before, [(each.topic, each.state) for each in found.stored]
    )


async def ensure_stored(store: ConversationStore, name: str) -> RecordedConversation:
    """A history that is in the log."""
    found = encode_carried(name)
    if not (await store.load(found.conversation_id)).version:
        await store_recorded(store, found)
    return found


_decoder: msgspec.json.Decoder[FileHeader | EventLine | EndLine] = msgspec.json.Decoder(
    FileHeader | EventLine | EndLine
)
