"""What was already sent is read back from TRACES, and interrupted text is continued after it."""

import hashlib
from typing import Any

import pytest

from agentchat.contracts import frames
from agentchat.contracts.values import Usage
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.rounds import Round
from agentchat.orchestrator.models.anthropic.client import can_prefill
from agentchat.orchestrator.models.continue_reply import Seam, add_continuation, replace_text
from agentchat.orchestrator.run.interrupted_text import SentOutput, read_sent_output


def _run(*recorded: str) -> Run:
    rounds = tuple(
        Round(number=number, text=text, blocks=(), usage=Usage()) for number, text in enumerate(recorded, 1)
    )
    return Run(
        trace_id="t",
        agent_id="a",
        user_message_id="m",
        user_text="",
        requested_at="",
        attempt=2,
        rounds=rounds,
    )


def _make_accepted() -> frames.Accepted:
    return frames.Accepted(seq=1, attempt=1, conversation_id="c")


def _build_delta(seq: int, text: str, *, round_number: int = 1, attempt: int = 1) -> frames.DeltaFrame:
    return frames.DeltaFrame(seq=seq, attempt=attempt, round=round_number, text=text, offset=0)  # is not read


def _make_resumed(attempt: int, text: str) -> frames.Resumed:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return frames.Resumed(seq=1, attempt=attempt, conversation_id="c", offset=len(text), sha256=digest)


def test_recorded_rounds_are_not_sent_again() -> None:
    kept: list[frames.Frame] = [
        _make_accepted(),
        _build_delta(2, "First. "),
        _build_delta(3, "Sec", round_number=2),
        _build_delta(4, "ond", round_number=2),
    ]
    assert read_sent_output(_run("First. "), kept) == SentOutput(text="Second", cuts=(3, 6))
    assert read_sent_output(_run("First. ", "Second"), kept) == SentOutput()


def test_nobody_can_say_what_was_in_a_gap() -> None:
    kept: list[frames.Frame] = [_make_accepted(), _build_delta(2, "It "), _build_delta(4, "shipped")]
    assert read_sent_output(_run(), kept).text == "It "


def test_a_lost_beginning_leaves_nothing_to_go_on_from() -> None:
    assert read_sent_output(_run(), [_build_delta(2, "It "), _build_delta(3, "has")]) == SentOutput()


def test_an_overtaken_attempt_is_ignored() -> None:
    kept: list[frames.Frame] = [
        _make_accepted(),
        _build_delta(2, "It "),
        _make_resumed(2, "It "),
        _build_delta(3, "HAS"),
        _build_delta(2, "has", attempt=2),
    ]
    assert read_sent_output(_run(), kept) == SentOutput(text="It has", cuts=(3, 6))


def test_an_attempt_that_knew_of_less_text_counts_from_there() -> None:
    kept: list[frames.Frame] = [
        _make_accepted(),
        _build_delta(2, "It "),
        _build_delta(3, "was"),
        _make_resumed(2, "It "),
        _build_delta(2, "has", attempt=2),
    ]
    assert read_sent_output(_run(), kept).text == "It has"


def test_frames_that_contradict_the_log_are_not_believed() -> None:
    kept: list[frames.Frame] = [_make_accepted(), _build_delta(2, "Something else")]
    assert read_sent_output(_run("First. "), kept) == SentOutput()


def test_calls_and_results_that_were_announced_are_known() -> None:
    kept: list[frames.Frame] = [
        _make_accepted(),
        frames.ToolCalledFrame(seq=2, attempt=1, call_id="a", name="find", input={}, round=1),
        frames.ToolCalledFrame(seq=3, attempt=1, call_id="b", name="find", input={}, round=1),
        frames.ToolReturnedFrame(seq=4, attempt=1, call_id="a", is_error=False),
    ]
    already = read_sent_output(_run(), kept)
    assert set(already.called) == {"a", "b"}
    assert set(already.returned) == {"a"}


def test_sources_that_went_out_are_not_sent_again() -> None:
    found = frames.SourcesFound(seq=2, attempt=1, sources=())
    assert read_sent_output(_run(), [_make_accepted(), found]) == SentOutput(sourced=True)
    assert read_sent_output(_run(), [found]) == SentOutput()  # after a gap


@pytest.mark.parametrize(
    ("model", "takes"),
    [
        ("claude-3-5-haiku-20241022", True),
        ("claude-opus-4-20250514", True),
        ("claude-opus-4-1-20250805", True),
        ("claude-sonnet-4-5", True),
        ("claude-haiku-4-5-20251001", True),
        ("demo-shop-1", True),
        ("claude-opus-4-6", False),
        ("claude-sonnet-4-6", False),
        ("claude-opus-4-8", False),
        ("claude-opus-5", False),
        ("claude-sonnet-5-5", False),
        ("claude-mythos-5-1", False),
        ("something-else", False),
    ],
)
def test_prefill_ended_with_the_models_of_4_6(model: str, takes: bool) -> None:
    assert can_prefill(model, {}) is takes


def test_a_model_that_thinks_takes_no_prefill() -> None:
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    assert not can_prefill("claude-opus-4-5", thinking)
    assert can_prefill("claude-opus-4-5", {"thinking": {"type": "disabled"}})


def test_a_prefill_does_not_end_in_white_space() -> None:
    question = {"role": "user", "content": [{"type": "text", "text": "Well?"}]}
    assert add_continuation([question], "Yes, \n", prefill=True) == [
        question,
        {"role": "assistant", "content": [{"type": "text", "text": "Yes,"}]},
    ]
    assert add_continuation([question], " \n", prefill=True) == [question]


@pytest.mark.parametrize(
    ("sent", "pieces", "whole"),
    [
        ("It has", [" shipped."], "It has shipped."),
        ("It has ", ["shipped."], "It has shipped."),
        ("It has ", [" shipped."], "It has shipped."),
        ("It has ", [" ", "shipped."], "It has shipped."),
        ("Items:\n\n", ["\n", "\n", "- one"], "Items:\n\n- one"),
        ("Items:\n\n", ["\n- one"], "Items:\n\n- one"),
        ("Items:\n", ["  - one"], "Items:\n  - one"),
        ("Done. ", ["   "], "Done.   "),
        ("Done. ", [], "Done. "),
        (
            "The order ORD-1001 has been",
            ["The order ORD-", "1001 has been", " sent."],
            "The order ORD-1001 has been sent.",
        ),
        (
            "The order ORD-1001 has been",
            ["The order is here."],
            "The order ORD-1001 has beenThe order is here.",
        ),
        ("Yes", ["Yes", "terday."], "YesYesterday."),
    ],
)
def test_new_text_joins_what_was_sent(sent: str, pieces: list[str], whole: str) -> None:
    seam = Seam(sent)
    joined = "".join([*map(seam.join, pieces), seam.flush()])
    assert sent + joined == whole


THOUGHT = [{"type": "thinking", "thinking": str(number), "signature": "s"} for number in range(3)]
CALL = {"type": "tool_use", "id": "c", "name": "find", "input": {}}


def say(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("blocks", "sent", "expected"),
    [
        ([say("b")], "ab", [say("ab")]),
        (
            [THOUGHT[0], say("b"), THOUGHT[1], say("c"), THOUGHT[2], CALL],
            "abc",
            [THOUGHT[0], say("ab"), THOUGHT[1], say("c"), THOUGHT[2], CALL],
        ),
        ([THOUGHT[0], THOUGHT[1], CALL], "a", [THOUGHT[0], THOUGHT[1], say("a"), CALL]),
        ([CALL, THOUGHT[0]], "a", [say("a"), CALL, THOUGHT[0]]),
        ([], "a", [say("a")]),
        # The reply began with what had been sent already.
        ([say("a"), THOUGHT[0], say("bc")], "abc", [say("a"), THOUGHT[0], say("bc")]),
        ([say("abc "), THOUGHT[0], say("d")], "abc d", [say("abc "), THOUGHT[0], say("d")]),
        ([say(" b"), CALL], "b", [say("b"), CALL]),
        ([say(" "), CALL], "", [CALL]),
        ([say("  "), THOUGHT[0], say("b")], " b", [say(" "), THOUGHT[0], say("b")]),
    ],
)
def test_sent_text_replaces_text_blocks_in_order(
    blocks: list[dict[str, Any]], sent: str, expected: list[dict[str, Any]]
) -> None:
    """Anthropic wants thinking blocks back where they stood."""
    assert list(replace_text(tuple(blocks), sent)) == expected
