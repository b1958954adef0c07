"""The rules of title and metadata: what is set is merged, bounded, and set once by each command."""

from typing import Any

import pytest
from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.contracts.messages import DescribeAnswered, DescribeConversation
from agentchat.contracts.values import MAX_PAIRS
from agentchat.conversations.aggregate.conversation import MAX_BYTES, MAX_EVENTS, Conversation, evolve
from agentchat.conversations.aggregate.description_rules import describe_conversation
from tests.conversations.given import ACCOUNT, ERASED, LATER, build_thread, trace, turn


def build_command(word: str = "c", **changes: Any) -> DescribeConversation:
    fields = {"account_id": ACCOUNT, "conversation_id": "conversation-1"} | changes
    return DescribeConversation(trace_id=trace(word), **fields)


def obey(conversation: Conversation, word: str = "c", **changes: Any) -> Conversation:
    decided = describe_conversation(conversation, build_command(word, **changes), LATER)
    assert isinstance(decided, events.ConversationDescribed)
    assert (decided.trace_id, decided.at) == (trace(word), LATER)
    return evolve(conversation, decided)


def test_what_is_left_out_stays_and_pairs_are_merged() -> None:
    first = obey(build_thread(*turn("a", "Hello", "Hi")), title="One", metadata={"a": "1", "b": "2"})
    assert (first.title, first.metadata) == ("One", {"a": "1", "b": "2"})
    second = obey(first, "d", metadata={"a": None, "b": "3", "c": "4"})
    assert (second.title, second.metadata) == ("One", {"b": "3", "c": "4"})
    third = obey(second, "e", title=None)
    assert (third.title, third.metadata) == (None, {"b": "3", "c": "4"})
    assert obey(third, "f", metadata=None).metadata == {}


def test_what_changes_nothing_is_no_event_unless_it_came_with_a_key() -> None:
    first = obey(build_thread(*turn("a", "Hello", "Hi")), "c", title="One", metadata={"a": "1"})
    same: dict[str, Any] = {"title": "One", "metadata": {"a": "1", "b": None}}
    variants: tuple[dict[str, Any], ...] = (same, {}, {"metadata": {}})
    for changes in variants:
        answer = describe_conversation(first, build_command("d", **changes), LATER)
        assert answer == DescribeAnswered(outcome="described", version=first.version)
    keyed = obey(first, "d", keyed=True, **same)
    later = obey(keyed, "e", title="Two")
    again = describe_conversation(later, build_command("d", keyed=True, **same), LATER)
    assert again == DescribeAnswered(outcome="described", version=keyed.version)


@pytest.mark.parametrize("full", [{"version": MAX_EVENTS}, {"stored_bytes": MAX_BYTES}])
def test_a_full_conversation_takes_no_description(full: dict[str, int]) -> None:
    first = replace(obey(build_thread(*turn("a", "Hello", "Hi")), title="One"), **full)
    assert describe_conversation(first, build_command("d", title="Two"), LATER) == DescribeAnswered(
        outcome="full"
    )
    assert describe_conversation(first, build_command("d", title="One"), LATER).outcome == "described"  # type: ignore[union-attr]


def test_more_pairs_than_there_may_be_change_nothing() -> None:
    full = obey(build_thread(*turn("a", "Hello", "Hi")), metadata={str(n): "x" for n in range(MAX_PAIRS)})
    assert describe_conversation(full, build_command("d", metadata={"more": "x"}), LATER) == DescribeAnswered(
        outcome="too_many_pairs"
    )
    assert obey(full, "d", metadata={"more": "x", "0": None}).metadata["more"] == "x"


def test_what_is_unknown_erased_or_somebody_elses_is_not_found() -> None:
    there = build_thread(*turn("a", "Hello", "Hi"))
    erased = evolve(there, ERASED)
    not_found = DescribeAnswered(outcome="not_found")
    assert (
        describe_conversation(Conversation(conversation_id="conversation-1"), build_command(), LATER)
        == not_found
    )
    assert describe_conversation(erased, build_command(), LATER) == not_found
    assert describe_conversation(there, build_command(account_id="another"), LATER) == not_found
