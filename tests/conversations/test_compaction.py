"""given this conversation -> the model sees a summary of its beginning, or there is to be one."""

from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from agentchat.contracts import events
from agentchat.contracts.messages import ForkConversation
from agentchat.contracts.values import ShownMessage
from agentchat.conversations.aggregate.compaction_rules import (
    Compact,
    find_last_covered_version,
    plan_compaction,
    plan_smaller_prompt,
)
from agentchat.conversations.aggregate.conversation import Conversation, evolve_all
from agentchat.conversations.aggregate.forking import fork
from agentchat.conversations.aggregate.model_messages import build_prompt, build_summary_prompt
from tests.conversations.given import (
    ACCOUNT,
    AT,
    begin,
    build_compacted,
    build_conversation_started,
    build_delta,
    build_run,
    build_run_failed,
    build_run_started,
    build_thread,
    build_tool_called,
    build_tool_returned,
    trace,
    turn,
    use,
)
from tests.conversations.test_model_messages import build_conversations

_ENOUGH = 12
"""Tokens: each reply of `turn` takes 15."""


TWO = (build_conversation_started(), *turn("a", "Hello", "Hi"), *turn("b", "So", "Well"))
"""Seven events each: the first turn ends with version 7, the second with 13."""


def list_texts(conversation: Conversation, word: str, **more: Any) -> list[tuple[str, str]]:
    messages = build_prompt(conversation, trace(word), tools_offered=True, **more).messages
    return [
        (message["role"], block["text"])
        for message in messages
        for block in message["content"]
        if block["type"] == "text"
    ]


def test_only_the_run_that_made_it_and_later_ones_are_shown_a_summary() -> None:
    conversation = build_run(*TWO, *begin("c", "And?"), build_compacted(13), *build_delta("So.", "c"))
    assert list_texts(conversation, "b") == [
        ("user", "Hello"),
        ("assistant", "Hi"),
        ("user", "So"),
        ("assistant", "Well"),
    ]
    later = evolve_all(conversation, [*begin("d", "Then?")])
    assert list_texts(later, "d")[0] == list_texts(conversation, "c")[0]


def test_a_seed_is_covered_too_and_asked_about() -> None:
    seeded = events.ConversationSeeded(trace_id=trace("a"), at=AT, messages=(ShownMessage("user", "Before"),))
    conversation = build_thread(seeded, *turn("a", "Hello", "Hi"), *begin("b", "So?"))
    asking = build_summary_prompt(conversation, trace("b"), Compact(1), "Sum up.", tools_offered=True)
    assert [block["text"] for block in asking.messages[0]["content"]] == ["Before", "Hello"]
    assert asking.messages[-1] == {"role": "user", "content": [{"type": "text", "text": "Sum up."}]}
    behind = evolve_all(
        conversation, [build_compacted(find_last_covered_version(conversation, trace("b"), 1), "b")]
    )
    assert [text for _, text in list_texts(behind, "b")][1:] == ["So?"]


def test_a_summary_costs_the_run_and_is_progress() -> None:
    run = build_run(*TWO, *begin("c"), build_run_started("c", 2), build_compacted(7)).runs[-1]
    assert run.usage.total == 100
    assert run.attempts_without_progress == 0


def test_a_provider_gets_its_own_block_and_others_the_text() -> None:
    block = {"type": "compaction", "content": "They met.", "signature": "s"}
    conversation = build_run(
        *TWO, *begin("c", "And?"), build_compacted(13, provider_data={"anthropic": block})
    )
    messages = build_prompt(conversation, trace("c"), tools_offered=True).messages
    assert messages[0] == {"role": "assistant", "content": [block]}
    assert "They met." in list_texts(conversation, "c", provider="openai")[0][1]


@pytest.mark.parametrize(
    ("tokens", "keep_runs", "expected"),
    [(_ENOUGH, 0, Compact(2)), (_ENOUGH, 1, Compact(1)), (_ENOUGH, 2, None), (10_000, 0, None)],
)
def test_summary_is_due_at_a_share_of_the_window(
    tokens: int, keep_runs: int, expected: Compact | None
) -> None:
    conversation = build_run(*TWO, *begin("c", "And?"))
    assert plan_compaction(conversation, trace("c"), tokens=tokens, keep_runs=keep_runs) == expected


def test_what_came_since_the_last_reply_counts() -> None:
    conversation = build_run(*TWO, *begin("c", "x" * 400))
    assert plan_compaction(conversation, trace("c"), tokens=115, keep_runs=0) == Compact(2)
    assert plan_compaction(conversation, trace("c"), tokens=116, keep_runs=0) is None
    called = (*build_tool_called([use("c1")], "c"), build_tool_returned("c1", "y" * 800, "c"))
    assert plan_compaction(evolve_all(conversation, called), trace("c"), tokens=215, keep_runs=0) == Compact(
        2
    )


def test_no_summary_is_due_before_a_reply_follows_the_last_one() -> None:
    conversation = build_run(*TWO, *begin("c"), build_compacted(7))
    assert plan_compaction(conversation, trace("c"), tokens=_ENOUGH, keep_runs=0) is None
    replied = evolve_all(conversation, build_tool_called([use("c1")], "c"))
    assert plan_compaction(replied, trace("c"), tokens=_ENOUGH, keep_runs=0) == Compact(1)
    in_vain = evolve_all(conversation, [build_run_failed("c"), *begin("d")])
    assert plan_compaction(in_vain, trace("d"), tokens=_ENOUGH, keep_runs=0) is None


def test_as_many_runs_as_are_kept_come_between_two_summaries() -> None:
    """Else a thread whose last runs fill the share would have a summary in each run."""
    three = (*TWO, *turn("c", "And", "Then"))
    conversation = build_run(*three, *begin("d"))
    assert plan_compaction(conversation, trace("d"), tokens=_ENOUGH, keep_runs=2) is None
    assert plan_smaller_prompt(conversation, trace("d"), keep_runs=2) == Compact(1)


def test_refused_prompt_keeps_the_last_runs_if_others_exist() -> None:
    conversation = build_run(*TWO, *begin("c"))
    assert plan_smaller_prompt(conversation, trace("c"), keep_runs=1) == Compact(1)
    assert plan_smaller_prompt(conversation, trace("c"), keep_runs=4) == Compact(2)
    all_of_it = evolve_all(
        conversation, [build_compacted(find_last_covered_version(conversation, trace("c"), 2))]
    )
    assert plan_smaller_prompt(all_of_it, trace("c"), keep_runs=0) is None


def test_a_fork_has_its_sources_summary_at_a_version_of_its_own() -> None:
    source = (
        *TWO,
        *begin("c", "And?"),
        build_compacted(7),
        *build_delta("So.", "c"),
        *turn("c", "", "So.")[-2:],
    )
    whole = evolve_all(Conversation(conversation_id="source"), source)
    command = ForkConversation(
        trace_id=trace("f"), account_id=ACCOUNT, source_id="source", conversation_id="fork", at=None
    )
    made = fork(source, [1] * len(source), command, AT)
    assert isinstance(made, tuple)
    forked = evolve_all(Conversation(conversation_id="fork"), (*made, *begin("g", "On?")))
    assert list_texts(forked, "g")[:-1] == list_texts(evolve_all(whole, [*begin("g", "On?")]), "g")[:-1]
    assert forked.runs[2].usage.total == 0


@for_all(build_conversations(), st.data())
def test_wherever_it_ends_a_summary_leaves_a_history_well_formed(
    told: tuple[Conversation, str], data: st.DataObject
) -> None:
    conversation, word = told
    earlier = len(conversation.runs) - 1
    if not earlier:
        return
    covered = data.draw(st.integers(1, earlier))
    through = find_last_covered_version(conversation, trace(word), covered)
    before = build_prompt(conversation, trace(word), tools_offered=True).messages
    messages = build_prompt(
        evolve_all(conversation, [build_compacted(through, word)]), trace(word), tools_offered=True
    ).messages
    assert messages[0]["role"] == "user"
    assert messages[1:] == before[len(before) - len(messages) + 1 :]
    calls = [
        block["id"] for message in messages for block in message["content"] if block["type"] == "tool_use"
    ]
    results = [
        block["tool_use_id"]
        for message in messages
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    assert calls == results
