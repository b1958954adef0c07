"""What is stored of an event, and that old tags keep decoding."""

from typing import Any

import msgspec
import pytest

from contracts import events, wire
from contracts.examples import EVENT_EXAMPLES
from conversations.errors import UnreadableEvent
from conversations.event_store import mapper

pytestmark = pytest.mark.requirement("EVENTS-TAGGED")


@pytest.mark.parametrize("event", EVENT_EXAMPLES, ids=lambda event: type(event).__name__)
def test_an_event_comes_back_from_its_tag_and_json(event: events.Event) -> None:
    topic, state = mapper.topic_of(event), mapper.state_of(event)
    assert mapper.event_of(topic, state) == event
    assert msgspec.json.decode(state)["type"] == topic


@pytest.mark.parametrize("event", EVENT_EXAMPLES, ids=lambda event: type(event).__name__)
def test_the_name_in_subjects_is_the_events_class(event: events.Event) -> None:
    assert mapper.event_name(mapper.topic_of(event)) == type(event).__name__


def test_old_tags_are_brought_to_the_newest_version_step_by_step() -> None:
    def to_v0(old: dict[str, Any]) -> dict[str, Any]:
        return {**old, "type": "run_completed.v0", "usage": {"input_tokens": old["tokens"]}}

    def to_v1(old: dict[str, Any]) -> dict[str, Any]:
        return {**old, "type": "run_completed.v1", "rounds": 1}

    upcasts = {"run_completed.first": to_v0, "run_completed.v0": to_v1}
    stored = wire.encode({"type": "run_completed.first", "trace_id": "t", "at": "now", "tokens": 7})
    event = mapper.event_of("run_completed.first", stored, upcasts)
    assert isinstance(event, events.RunCompleted)
    assert event.usage.input_tokens == 7
    assert event.rounds == 1


@pytest.mark.parametrize("state", [b"", b"{", b'{"type":"unheard_of.v9"}', b'{"type":"run_cancelled.v1"}'])
def test_what_cannot_be_decoded_says_so(state: bytes) -> None:
    with pytest.raises(UnreadableEvent) as raised:
        mapper.event_of("unheard_of.v9", state)
    assert raised.value.topic == "unheard_of.v9"
