"""What a model thinks: its events in every protocol, what a reader gets of it, and where one goes on."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from agentchat.contracts import frames
from agentchat.contracts.examples import CONVERSATION, TRACE
from agentchat.contracts.http import ReasoningEvent
from agentchat.contracts.sse_encoder import FORMS, Encoder
from agentchat.contracts.stream_cursors import Cursor, parse_cursor
from agentchat.contracts.updates import NextRound, ReasoningUpdate, Started, TextUpdate, ToolStarted, Update
from agentchat.contracts.values import Usage
from agentchat.conversations.aggregate.canonical_stream import has_reasoning, replay_updates
from agentchat.conversations.aggregate.rounds import Round
from agentchat.gateway.protocols.ag_ui.ag_ui_events import AgUiEvents
from agentchat.gateway.protocols.ai_sdk.ui_message_chunks import AiSdkChunks
from agentchat.gateway.protocols.openai.completion_answers import CompletionChunks, build_completion
from agentchat.gateway.protocols.openai.responses import response_types
from agentchat.gateway.protocols.openai.responses.response_output import ResponseOutput, build_response
from agentchat.gateway.runs.event_stream import UpdateQueue
from agentchat.gateway.runs.frames_to_updates import View
from agentchat.gateway.runs.run_request import ViewKind
from agentchat.gateway.runs.updates_after_cursor import ReadPosition, UpdateHistory
from tests.gateway.live_frames import (
    ACCEPTED,
    feed,
    make_delta,
    make_events,
    make_finished,
    make_resumed,
    run,
)

THOUGHTS = [ReasoningUpdate("Two orders", 1), ReasoningUpdate(" are open.", 1)]
FINISHED = replace(
    make_finished("It left."), usage=Usage(input_tokens=7, output_tokens=2, reasoning_tokens=1)
)
STREAM: list[Update] = [
    Started(),
    *THOUGHTS,
    ToolStarted("c1", "find", {}),
    NextRound(2),
    ReasoningUpdate("Found.", 2),
    TextUpdate("It left."),
    FINISHED,
]
SUMMARY = ViewKind(outputs=True, reasoning=True)
BEGUN = response_types.Response(
    id="resp_1",
    created_at=0,
    status="in_progress",
    model="m",
    conversation=response_types.ConversationRef(id="conv_1"),
)


def make_thought(
    seq: int, text: str, offset: int, *, attempt: int = 1, number: int = 1
) -> frames.ReasoningFrame:
    return frames.ReasoningFrame(seq=seq, attempt=attempt, round=number, text=text, offset=offset)


def select(updates: list[Any], *kinds: str) -> list[Any]:
    return [each for each in updates if each["type"].startswith(kinds)]


def join_reasoning(updates: list[Update]) -> str:
    return "".join(update.text for update in updates if isinstance(update, ReasoningUpdate))


def test_full_has_reasoning_and_forms_1_and_2_do_not() -> None:
    data = {form: make_events(Encoder(form, CONVERSATION, TRACE).encode(STREAM)) for form in FORMS}
    assert [each["content"] for each in select(data["full"], "reasoning")] == [
        *("Two orders", " are open.", "Found.")
    ]
    assert data["full"][-1]["usage"]["reasoning"] == 1
    assert not select(data["form1"] + data["form2"], "reasoning")
    assert msgspec.json.encode(ReasoningEvent(content="x")) == b'{"type":"reasoning","content":"x"}'


def test_chat_completions_have_reasoning_content_and_its_tokens() -> None:
    chunks = CompletionChunks("chatcmpl-1", "m", 0, CONVERSATION, include_usage=True).encode(STREAM)
    *told, usage, _ = make_events(chunks)
    deltas = [chunk["choices"][0]["delta"] for chunk in told]
    assert [each["reasoning_content"] for each in deltas if "reasoning_content" in each] == [
        *("Two orders", " are open.", "Found.")
    ]
    assert [each["content"] for each in deltas if each.get("content")] == ["It left."]
    assert usage["usage"]["completion_tokens_details"] == {"reasoning_tokens": 1}
    (choice,) = build_completion(FINISHED, STREAM, "chatcmpl-1", "m", 0).choices
    assert (choice.message.reasoning_content, choice.message.content) == (
        "Two orders are open.Found.",
        "It left.",
    )


def test_ui_message_streams_have_reasoning_parts() -> None:
    read = make_events(AiSdkChunks(TRACE, CONVERSATION).encode(STREAM))[:-1]
    first, second = {"id": "reasoning-1"}, {"id": "reasoning-2"}
    assert select(read, "reasoning", "text") == [
        {"type": "reasoning-start", **first},
        {"type": "reasoning-delta", **first, "delta": "Two orders"},
        {"type": "reasoning-delta", **first, "delta": " are open."},
        {"type": "reasoning-end", **first},
        {"type": "reasoning-start", **second},
        {"type": "reasoning-delta", **second, "delta": "Found."},
        {"type": "reasoning-end", **second},
        {"type": "text-start", "id": "2"},
        {"type": "text-delta", "id": "2", "delta": "It left."},
        {"type": "text-end", "id": "2"},
    ]


def test_ag_ui_has_reasoning_messages() -> None:
    read = make_events(AgUiEvents("t", "r", TRACE, CONVERSATION, is_1_0=True).encode(STREAM))
    found = select(read, "REASONING")
    once = [
        *("REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT"),
        *("REASONING_MESSAGE_END", "REASONING_END"),
    ]
    assert [each["type"] for each in found] == [*once[:3], *once[2:], *once]
    assert found[1]["role"] == "reasoning"
    assert len({each["messageId"] for each in found}) == 2
    assert read[-1]["usage"][0]["reasoningTokens"] == 1


def read_response(updates: list[Update], after: int = -1) -> list[Any]:
    return make_events(ResponseOutput(BEGUN, after).encode(updates))


def test_responses_have_reasoning_items_that_move_no_number() -> None:
    read = read_response(STREAM)
    of_item = [each for each in read if each.get("output_index") == 0]
    assert [each["type"] for each in of_item] == [
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
    ]
    item = {
        "id": "rs_1_1",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Two orders are open."}],
        "status": "completed",
    }
    assert of_item[-1]["item"] == item
    response = read[-1]["response"]
    assert response["output"][0] == item
    assert [each["type"] for each in response["output"]] == ["reasoning", "mcp_call", "reasoning", "message"]
    assert response["usage"]["output_tokens_details"] == {"reasoning_tokens": 1}
    hidden: list[Update] = [update for update in STREAM if not isinstance(update, ReasoningUpdate)]
    numbers = [each["sequence_number"] for each in read_response(hidden)]
    assert sorted({each["sequence_number"] for each in read}) == numbers


def test_a_response_goes_on_in_its_reasoning_with_the_whole_item() -> None:
    read = read_response(STREAM, after=1)
    assert [each["type"] for each in read[:2]] == ["response.output_item.done", "response.output_item.added"]
    assert read[0]["item"]["summary"][0]["text"] == "Two orders are open."
    assert select(read_response(STREAM, after=2), "response.reasoning")[0]["item_id"] == "rs_1_2"
    (item,) = build_response(BEGUN, STREAM[:2]).output
    assert isinstance(item, response_types.ReasoningItem)
    assert (item.status, item.summary[0].text) == ("in_progress", "Two orders")


def test_a_missed_piece_is_read_back_and_a_lost_one_ends_it() -> None:
    known: list[frames.Frame] = [ACCEPTED, make_thought(2, "a", 0), make_thought(3, "b", 1)]
    view = View(SUMMARY)
    told = feed(view, ACCEPTED, make_thought(2, "a", 0), make_thought(4, "c", 2))
    assert join_reasoning(told) == "a"
    assert view.wants_repair
    told += view.feed_all([*known, make_thought(4, "c", 2)])
    assert join_reasoning(told) == "abc"
    lost = View(SUMMARY)
    told = feed(lost, ACCEPTED, make_thought(3, "b", 1))
    told += lost.feed_all([ACCEPTED]) + feed(lost, make_thought(4, "c", 2), make_delta(5, "It left.", 0))
    assert join_reasoning(told) == ""


def test_a_take_over_in_mid_thinking_gives_no_mixture() -> None:
    view = View(SUMMARY)
    told = feed(view, ACCEPTED, make_thought(2, "The old wor", 0), make_resumed(2, ""))
    told += feed(view, make_thought(2, "The new worker's thought", 0, attempt=2))
    told += feed(view, make_thought(3, "Next.", 0, attempt=2, number=2))
    assert [each.text for each in told if isinstance(each, ReasoningUpdate)] == ["The old wor", "Next."]


THINKING: dict[str, Any] = {"type": "thinking", "signature": "s"}
STORED = run(
    rounds=(
        Round(
            number=1,
            text="It left.",
            blocks=(
                THINKING | {"thinking": "Two orders"},
                {"type": "redacted_thinking", "data": "x"},
                THINKING | {"thinking": ""},
                THINKING | {"thinking": "are open."},
                {"type": "text", "text": "It left."},
                THINKING | {"thinking": "Later."},
            ),
        ),
    )
)


def test_stored_reasoning_is_shown_on_request_alone() -> None:
    assert has_reasoning(STORED)
    told = list(replay_updates(STORED, reasoning=True))
    assert told[1] == ReasoningUpdate("Two orders\n\nare open.", 1)
    assert join_reasoning(list(replay_updates(STORED))) == ""
    view = View(SUMMARY)
    feed(view, ACCEPTED)
    view.hide_reasoning()
    assert join_reasoning(view.feed_log(STORED) + feed(view, make_thought(2, "x", 0))) == ""
    late = View(SUMMARY)
    told = feed(late, ACCEPTED, make_thought(2, "Two", 0))
    assert join_reasoning(told + late.feed_log(STORED)) == "Two orders\n\nare open."


def cut(history: UpdateHistory, cursor: Cursor | None) -> list[Update]:
    return ReadPosition(history, cursor).take()


def keep(*updates: Update) -> UpdateHistory:
    history = UpdateHistory(has_outputs=True)
    history.add(updates)
    return history


def test_a_cursor_within_reasoning_gets_the_rest_once() -> None:
    history = keep(*STREAM)
    whole = "Two orders are open.Found."
    for entry in history.entries:
        assert entry.cursor is not None
        cursor = parse_cursor(entry.cursor.format(TRACE), TRACE)
        assert cursor == entry.cursor
        assert join_reasoning(cut(history, cursor)) == whole[cursor.reasoning :]
    within = keep(*STREAM[:1], ReasoningUpdate("Two or", 1)).cursor
    assert join_reasoning(cut(history, within)) == "ders are open.Found."


def test_a_cursor_of_other_reasoning_gets_what_follows_its_round() -> None:
    other = keep(Started(), ReasoningUpdate("Another worker th", 1)).cursor
    rest = cut(keep(*STREAM), other)
    assert join_reasoning(rest) == "Found."
    assert [type(each) for each in rest[:1]] == [ToolStarted]


@pytest.mark.parametrize("make", [lambda n: TextUpdate("x"), lambda n: ReasoningUpdate("x", 1)])
def test_a_slow_reader_gets_joined_pieces(make: Callable[[int], Update]) -> None:
    queue = UpdateQueue()
    queue.add([Started(), *map(make, range(5_000)), NextRound(2)])
    taken = queue.take()
    assert len(taken) < 300
    assert sum(len(each.text) for each in taken if isinstance(each, TextUpdate | ReasoningUpdate)) == 5_000
