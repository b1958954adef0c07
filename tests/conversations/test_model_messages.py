"""given this conversation -> the model sees these messages."""

from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from agentchat.contracts import events
from agentchat.contracts.values import AgentFacts, Role, ShownMessage
from agentchat.conversations.aggregate.conversation import Conversation, evolve_all
from agentchat.conversations.aggregate.model_messages import build_prompt
from agentchat.conversations.aggregate.opening_rules import StartRun, decide_opening
from agentchat.conversations.aggregate.rounds import list_tool_calls
from tests.conversations.given import (
    AT,
    begin,
    build_answer,
    build_delta,
    build_model_replied,
    build_run_cancelled,
    build_run_failed,
    build_thread,
    build_tool_called,
    build_tool_returned,
    build_user_message,
    request,
    trace,
    use,
)

Message = dict[str, Any]


def build_text(content: str) -> Message:
    return {"type": "text", "text": content}


def build_user(*blocks: Message) -> Message:
    return {"role": "user", "content": list(blocks)}


def build_assistant(*blocks: Message) -> Message:
    return {"role": "assistant", "content": list(blocks)}


def build_result(call_id: str, output: str = '{"ok":true}', **more: Any) -> Message:
    return {"type": "tool_result", "tool_use_id": call_id, "content": output, **more}


def show(*stored: events.Event, word: str = "b", tools: bool = True) -> list[Message]:
    return build_prompt(build_thread(*stored), trace(word), tools_offered=tools).messages


@pytest.mark.parametrize("first", ["user", "assistant"])
def test_what_the_caller_showed_comes_before_all_that_was_said(first: Role) -> None:
    shown = (ShownMessage(first, "One"), ShownMessage("assistant", "Two"))
    seeded = events.ConversationSeeded(trace_id=trace("b"), at=AT, messages=shown)
    begins = [build_user(build_text("One")), build_assistant(build_text("Two"))]
    if first == "assistant":
        begins = [build_user(build_text("(empty)")), build_assistant(build_text("One"), build_text("Two"))]
    assert show(seeded, *begin("b", "Three")) == [*begins, build_user(build_text("Three"))]


@pytest.mark.parametrize("end", [build_run_failed(), build_run_cancelled()])
def test_a_run_without_a_reply_keeps_its_message_and_the_text_so_far(end: events.Event) -> None:
    half = events.Delta(trace_id=trace("a"), at=AT, round=1, text="It is on its", cuts=(12,))
    assert show(*begin(), half, end, *begin("b", "Go on")) == [
        build_user(build_text("Where is it?")),
        build_assistant(build_text("It is on its")),
        build_user(build_text("Go on")),
    ]


def test_thinking_goes_back_in_its_own_run_only() -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    hidden = {"type": "redacted_thinking", "data": "x"}
    earlier = (
        *begin(),
        build_model_replied([thought, hidden, build_text("Hi")], "a", stop_reason="end_turn"),
    )
    own = (
        *begin("b"),
        *build_tool_called([thought, hidden, use("c1")], "b"),
        build_tool_returned("c1", word="b"),
    )
    messages = show(*earlier, *build_answer("Hi", "a"), *own)
    assert (messages[1], messages[3]) == (
        build_assistant(build_text("Hi")),
        build_assistant(thought, hidden, use("c1")),
    )


def test_an_agent_without_tools_reads_earlier_calls_as_text() -> None:
    stored = (
        *begin(),
        *build_tool_called([use("c1", order="7")]),
        build_tool_returned("c1"),
        *build_delta("Shipped.", number=2),
    )
    assert show(*stored, *build_answer("Shipped."), *begin("b", "Thanks"), tools=False) == [
        build_user(build_text("Where is it?")),
        build_assistant(build_text('[Tool call get_order: {"order":"7"}]')),
        build_user(build_text('[Tool result get_order: {"ok":true}]')),
        build_assistant(build_text("Shipped.")),
        build_user(build_text("Thanks")),
    ]


def test_a_reply_without_recorded_rounds_is_seen_as_its_text() -> None:
    assert show(*begin("a", "Hello"), *build_answer("Hi", "a"), build_user_message("b"))[
        1
    ] == build_assistant(build_text("Hi"))


_texts = st.text(max_size=5)
_thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
_blocks = st.lists(st.one_of(st.builds(build_text, _texts), st.just(_thinking), st.none()), max_size=4)
"""A reply's blocks; None stands for a call of a tool."""


@st.composite
def build_conversations(draw: st.DrawFn) -> tuple[Conversation, str]:
    """A conversation as the turn's rules let it become, cut off anywhere, and the trace of its last run."""
    conversation = Conversation(conversation_id="conversation-1")
    word = ""
    for number in range(draw(st.integers(1, 4))):
        word = f"r{number}"
        asking = request(word, new_conversation=number == 0, message=draw(_texts.filter(str.strip)))
        opening = decide_opening(
            conversation, asking, AgentFacts(agent_version=1, model="m"), now=AT, expired=False
        )
        assert isinstance(opening, StartRun)
        conversation = evolve_all(conversation, (*opening.events, *draw(_build_rounds(word))))
        run = conversation.run(trace(word))
        assert run is not None
        conversation = evolve_all(
            conversation, draw(st.sampled_from([build_answer("Hi", word), (build_run_failed(word),)]))
        )
    return conversation, word


@st.composite
def _build_rounds(draw: st.DrawFn, word: str) -> list[events.Event]:
    stored: list[events.Event] = []
    for number in range(1, draw(st.integers(0, 3)) + 1):
        stored.append(events.Delta(trace_id=trace(word), at=AT, round=number, text=draw(_texts), cuts=()))
        if draw(st.booleans()):
            blocks = [
                use(f"{word}-{number}-{place}") if block is None else block
                for place, block in enumerate(draw(_blocks))
            ]
            reply = build_model_replied(blocks, word, number)
            calls = list_tool_calls(reply)
            done = [
                build_tool_returned(call.call_id, word=word, number=number)
                for call in calls
                if draw(st.booleans())
            ]
            stored += [reply, *calls, *done]
    return stored


@for_all(build_conversations(), st.booleans())
def test_history_is_always_well_formed(told: tuple[Conversation, str], tools: bool) -> None:
    conversation, word = told
    messages = build_prompt(conversation, trace(word), tools_offered=tools).messages
    roles = [message["role"] for message in messages]
    assert roles == [("user", "assistant")[place % 2] for place in range(len(roles))]
    assert roles
    pending: list[str] = []
    for message in messages:
        blocks = message["content"]
        assert blocks
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert results == pending  # each call's result, at the head of the very next message
        assert [block["type"] for block in blocks[: len(results)]] == ["tool_result"] * len(results)
        pending = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert not (pending and message["role"] == "user")
    assert not pending
    if not tools:
        assert not any(
            block["type"].startswith("tool_") for message in messages for block in message["content"]
        )


def test_what_is_opaque_goes_back_to_its_own_provider_alone() -> None:
    signed = {"type": "thinking", "thinking": "Hm", "signature": "s"}
    kept = build_text("Hi") | {"provider_data": {"openai": {"id": "o"}, "anthropic": {"id": "a"}}}
    stored = (*begin("b", "Hello"), *build_tool_called([signed, kept, use("c1")], "b"))
    conversation = build_thread(*stored, build_tool_returned("c1", word="b"))

    def blocks(provider: str) -> list[Message]:
        shown = build_prompt(conversation, trace("b"), tools_offered=True, provider=provider)
        return list(shown.messages[1]["content"])

    assert blocks("anthropic") == [
        signed,
        build_text("Hi") | {"provider_data": {"anthropic": {"id": "a"}}},
        use("c1"),
    ]
    assert blocks("openai") == [build_text("Hi") | {"provider_data": {"openai": {"id": "o"}}}, use("c1")]
    assert blocks("other") == [build_text("Hi"), use("c1")]
