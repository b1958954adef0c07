"""What is kept of a history makes the same prompts as rendering all of it."""

import copy
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st
from msgspec.structs import replace

from agentchat.contracts.values import ShownMessage
from agentchat.conversations.aggregate.conversation import Conversation, evolve_all
from agentchat.conversations.aggregate.model_messages import HistoryCache, Prompt, build_prompt
from tests.conversations.given import begin, build_run_failed, build_thread, build_user_message, trace, turn
from tests.conversations.test_model_messages import build_conversations

_Shown = tuple[list[dict[str, Any]], int, int, int]
_ways = st.tuples(st.booleans(), st.sampled_from(["anthropic", "openai"]))


@for_all(build_conversations(), st.lists(st.tuples(st.integers(0, 3), _ways), max_size=8), st.booleans())
def test_prompts_are_those_of_rendering_all(
    told: tuple[Conversation, str], asked_for: list[tuple[int, tuple[bool, str]]], seeded: bool
) -> None:
    """In whatever order runs are asked for, and whatever became of the prompts before."""
    conversation, kept = told[0], HistoryCache()
    made: list[tuple[_Shown, _Shown]] = []
    for number, (tools, provider) in asked_for:
        run = conversation.runs[number % len(conversation.runs)]
        seed = (ShownMessage("assistant", "One"),) if seeded and number else ()
        one = replace(conversation, seed=seed)
        whole = build_prompt(one, run.trace_id, tools_offered=tools, provider=provider, documents="d")
        again = build_prompt(
            *(one, run.trace_id), tools_offered=tools, provider=provider, documents="d", histories=kept
        )
        assert _show(again) == _show(whole)
        made.append((_show(again), copy.deepcopy(_show(again))))
    assert all(prompt == then for prompt, then in made)


def _show(prompt: Prompt) -> _Shown:
    return prompt.messages, prompt.earlier, prompt.settled.count, prompt.settled.blocks


def test_what_was_rendered_is_not_rendered_again() -> None:
    kept, stored = HistoryCache(), (*turn("a", "Hello", "Hi"), *turn("b", "So", "Well"))
    begun = build_thread(*stored)
    first = build_prompt(begun, trace("b"), tools_offered=True, histories=kept)
    longer = evolve_all(begun, begin("c"))
    second = build_prompt(longer, trace("c"), tools_offered=True, histories=kept)
    assert second.messages[0] is first.messages[0]
    assert second.earlier == 4


def test_runs_that_are_other_than_before_are_rendered_again() -> None:
    kept = HistoryCache()
    for end in (
        turn("a", "One", "Yes"),
        turn("a", "One", "No"),
        (build_user_message("a", "One"), build_run_failed("a")),
    ):
        conversation = build_thread(*end, build_user_message("b"))
        again = build_prompt(conversation, trace("b"), tools_offered=True, histories=kept)
        assert _show(again) == _show(build_prompt(conversation, trace("b"), tools_offered=True))


@pytest.mark.parametrize(
    ("bounds", "left"), [({"max_histories": 2}, 2), ({"max_bytes": 7000}, 2), ({"max_bytes": 0}, 0)]
)
def test_what_is_kept_is_bounded_by_number_and_bytes(bounds: dict[str, int], left: int) -> None:
    kept = HistoryCache(**bounds)
    for number in range(9):
        conversation = build_thread(*turn("a", "Hello", "x" * 500), build_user_message("b"))
        conversation = replace(conversation, conversation_id=str(number))
        build_prompt(conversation, trace("b"), tools_offered=True, histories=kept)
    assert len(kept._kept) == left
