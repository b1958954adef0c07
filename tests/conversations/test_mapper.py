"""What is stored of an event, and that old tags keep decoding."""

from typing import Any, TypeVar, Union

import msgspec
import pytest

from agentchat.contracts import events, wire
from agentchat.contracts.examples import EVENT_EXAMPLES
from agentchat.conversations.errors import UnknownEvent, UnreadableEvent
from agentchat.conversations.event_store import mapper

E = TypeVar("E", bound=events.Fact)


@pytest.mark.parametrize("event", EVENT_EXAMPLES, ids=lambda event: type(event).__name__)
def test_an_event_comes_back_from_its_tag_and_json(event: events.Event) -> None:
    topic, state = mapper.get_topic(event), mapper.encode_state(event)
    assert mapper.decode_stored(topic, state) == event
    assert msgspec.json.decode(state)["type"] == topic


@pytest.mark.parametrize("event", EVENT_EXAMPLES, ids=lambda event: type(event).__name__)
def test_the_name_in_subjects_is_the_events_class(event: events.Event) -> None:
    assert mapper.get_event_name(mapper.get_topic(event)) == type(event).__name__


def test_old_tags_are_brought_to_the_newest_version_step_by_step() -> None:
    def to_v0(old: dict[str, Any]) -> dict[str, Any]:
        return {**old, "type": "run_completed.v0", "usage": {"input_tokens": old["tokens"]}}

    def to_v1(old: dict[str, Any]) -> dict[str, Any]:
        return {**old, "type": "run_completed.v1", "rounds": 1}

    upcasts = {"run_completed.first": to_v0, "run_completed.v0": to_v1}
    stored = wire.encode({"type": "run_completed.first", "trace_id": "t", "at": "now", "tokens": 7})
    event = mapper.decode_stored("run_completed.first", stored, upcasts)
    assert isinstance(event, events.RunCompleted)
    assert event.usage.input_tokens == 7
    assert event.rounds == 1


def _build_example(kind: type[E]) -> E:
    (found,) = (each for each in EVENT_EXAMPLES if isinstance(each, kind))
    return found


def test_tools_question_is_read_from_its_earlier_tag() -> None:
    approval, elicitation = (
        _build_example(events.ApprovalRequested),
        _build_example(events.ElicitationRequested),
    )
    tag = mapper.get_topic(approval)
    before = msgspec.json.decode(wire.encode(elicitation), type=dict[str, Any]) | {"type": tag}
    assert mapper.decode_stored(tag, wire.encode(before)) == elicitation
    assert mapper.decode_stored(tag, wire.encode(before | {"asked": None})) == approval


def test_a_release_that_does_not_know_what_a_tool_asks_refuses_it() -> None:
    """As an optional field it was passed over, and the answer became what the tool ran with."""
    known = [each for each in events.EVENTS if each is not events.ElicitationRequested]
    earlier = msgspec.json.Decoder(Union[tuple(known)])  # noqa: UP007 - made at run time
    asks = _build_example(events.ElicitationRequested)
    with pytest.raises(msgspec.ValidationError, match=mapper.get_topic(asks)):
        earlier.decode(mapper.encode_state(asks))


@pytest.mark.parametrize("state", [b"", b"{", b'{"type":"unheard_of.v9"}', b'{"type":"run_cancelled.v1"}'])
@pytest.mark.parametrize("topic", ["unheard_of.v9", "run_cancelled.v1"])
def test_what_cannot_be_decoded_says_so_and_whether_its_tag_is_known(topic: str, state: bytes) -> None:
    with pytest.raises(UnreadableEvent) as raised:
        mapper.decode_stored(topic, state)
    assert raised.value.topic == topic
    assert isinstance(raised.value, UnknownEvent) is (topic == "unheard_of.v9")
