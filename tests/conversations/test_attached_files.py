"""given messages and tool results with files -> the model is shown these, before the text, within limits."""

from typing import Any

import pytest
from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.contracts.examples import FILE
from agentchat.contracts.files import StoredFile
from agentchat.contracts.values import ShownMessage
from agentchat.conversations.aggregate.attached_files import (
    MOST_SHOWN,
    MOST_SHOWN_BYTES,
    count_hidden,
    list_shown_files,
    name_files,
    replace_files,
)
from agentchat.conversations.aggregate.compaction_rules import plan_compaction
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.aggregate.model_messages import build_prompt
from agentchat.conversations.aggregate.rebuild_request import rebuild_request
from tests.conversations.given import (
    AT,
    build_answer,
    build_delta,
    build_run_started,
    build_thread,
    build_tool_called,
    build_tool_returned,
    build_user_message,
    trace,
    use,
)

CHART, PDF = (replace(FILE, file_id=name, name=name) for name in ("chart.png", "order.pdf"))
SHOWN, LOOKED = {"type": "file", "file": FILE}, {"type": "file", "file": CHART}


def build_message(word: str, text: str, *files: StoredFile) -> events.MessageSaved:
    return replace(build_user_message(word, text), attachments=files)


def build_thread_with_files() -> Conversation:
    """A run with an image and a tool that returned another one; then a message that is a file alone."""
    return build_thread(
        build_message("a", "Is it this?", FILE),
        build_run_started("a"),
        *build_tool_called([use("c1")]),
        replace(build_tool_returned("c1"), files=(CHART,)),
        *build_delta("Yes.", number=2),
        *build_answer("Yes."),
        build_message("b", "", PDF),
        build_run_started("b"),
    )


def test_files_stand_before_the_text_and_in_results_after_it() -> None:
    thread = build_thread_with_files()
    output = [{"type": "text", "text": '{"ok":true}'}, LOOKED]
    assert build_prompt(thread, trace("b"), tools_offered=True).messages == [
        {"role": "user", "content": [SHOWN, {"type": "text", "text": "Is it this?"}]},
        {"role": "assistant", "content": [use("c1")]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": output}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]},
        {"role": "user", "content": [{"type": "file", "file": PDF}]},
    ]
    without = build_prompt(thread, trace("b"), tools_offered=False).messages
    assert without[2]["content"] == [{"type": "text", "text": '[Tool result get_order: {"ok":true}]'}, LOOKED]
    assert list_shown_files(thread, trace("b")) == [(FILE,), (CHART,), (PDF,)]
    named = name_files((), thread.runs)
    assert named == "Files that are not shown any more: parcel.png, chart.png, order.pdf."
    assert rebuild_request(thread, thread.runs[1], 2).attachments == (PDF,)


def test_files_of_a_callers_own_history_are_shown_too() -> None:
    shown = ShownMessage("user", "", (FILE,)), ShownMessage("assistant", "A parcel.")
    seeded = events.ConversationSeeded(trace_id=trace("b"), at=AT, messages=shown)
    thread = build_thread(seeded, build_message("b", "Whose?"), build_run_started("b"))
    first = build_prompt(thread, trace("b"), tools_offered=False).messages[0]
    assert first == {"role": "user", "content": [SHOWN]}
    assert list_shown_files(thread, trace("b")) == [(FILE,)]


def test_each_file_is_replaced_by_one_block() -> None:
    thread = build_thread_with_files()
    messages = build_prompt(thread, trace("b"), tools_offered=True).messages
    shown = replace_files(messages, lambda file: {"type": "text", "text": file.name})
    assert shown[0]["content"][0] == {"type": "text", "text": "parcel.png"}
    assert shown[2]["content"][0]["content"][1] == {"type": "text", "text": "chart.png"}
    assert shown[1] is messages[1]
    assert messages[0]["content"][0] == SHOWN


@pytest.mark.parametrize(
    ("groups", "hidden"),
    [
        ([1] * MOST_SHOWN, 0),
        ([1] * (MOST_SHOWN + 1), MOST_SHOWN // 2 + 1),
        ([1] * (MOST_SHOWN + 5), MOST_SHOWN // 2 + 1),
        ([MOST_SHOWN], 0),
        ([3, MOST_SHOWN], 3),
        ([MOST_SHOWN + 2], 2),
    ],
    ids=["all", "one-more", "then-stays", "one-message", "earlier-first", "too-many-at-once"],
)
def test_the_oldest_are_hidden_down_to_half_of_the_limit(groups: list[int], hidden: int) -> None:
    assert count_hidden([(FILE,) * size for size in groups]) == hidden


def test_bytes_are_limited_like_numbers() -> None:
    half: Any = replace(FILE, bytes=MOST_SHOWN_BYTES // 2)
    assert [count_hidden([(half,)] * number) for number in (2, 3, 4)] == [0, 2, 2]


def test_files_count_in_the_estimate_of_the_next_call() -> None:
    def plans(*files: StoredFile) -> bool:
        thread = build_thread(
            *(build_message("a", "x"), build_run_started("a"), *build_delta("Yes."), *build_answer("Yes.")),
            build_message("b", "y", *files),
            build_run_started("b"),
        )
        return plan_compaction(thread, trace("b"), tokens=1_600, keep_runs=0) is not None

    assert (plans(), plans(FILE)) == (False, True)
