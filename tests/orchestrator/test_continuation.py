"""Going on with interrupted text: which models take a prefill, and where the new text joins the old."""

from typing import Any

import pytest

from orchestrator.models.anthropic.client import takes_prefill
from orchestrator.models.continuation import Seam, going_on, with_text

pytestmark = pytest.mark.requirement("RESUME")


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
    assert takes_prefill(model, {}) is takes


def test_a_model_that_thinks_takes_no_prefill() -> None:
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    assert not takes_prefill("claude-opus-4-5", thinking)
    assert takes_prefill("claude-opus-4-5", {"thinking": {"type": "disabled"}})


def test_a_prefill_does_not_end_in_white_space() -> None:
    question = {"role": "user", "content": [{"type": "text", "text": "Well?"}]}
    assert going_on([question], "Yes, \n", prefill=True) == [
        question,
        {"role": "assistant", "content": [{"type": "text", "text": "Yes,"}]},
    ]
    assert going_on([question], " \n", prefill=True) == [question]


@pytest.mark.requirement("STREAM-CONCAT")
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
    joined = "".join([*map(seam.join, pieces), seam.rest()])
    assert sent + joined == whole


THOUGHT = [{"type": "thinking", "thinking": str(number), "signature": "s"} for number in range(3)]
CALL = {"type": "tool_use", "id": "c", "name": "find", "input": {}}


def said(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("blocks", "sent", "expected"),
    [
        ([said("b")], "ab", [said("ab")]),
        (
            [THOUGHT[0], said("b"), THOUGHT[1], said("c"), THOUGHT[2], CALL],
            "abc",
            [THOUGHT[0], said("ab"), THOUGHT[1], said("c"), THOUGHT[2], CALL],
        ),
        ([THOUGHT[0], THOUGHT[1], CALL], "a", [THOUGHT[0], THOUGHT[1], said("a"), CALL]),
        ([CALL, THOUGHT[0]], "a", [said("a"), CALL, THOUGHT[0]]),
        ([], "a", [said("a")]),
        # The reply began with what had been sent already.
        ([said("a"), THOUGHT[0], said("bc")], "abc", [said("a"), THOUGHT[0], said("bc")]),
        ([said("abc "), THOUGHT[0], said("d")], "abc d", [said("abc "), THOUGHT[0], said("d")]),
        ([said(" b"), CALL], "b", [said("b"), CALL]),
        ([said(" "), CALL], "", [CALL]),
        ([said("  "), THOUGHT[0], said("b")], " b", [said(" "), THOUGHT[0], said("b")]),
    ],
)
def test_what_was_said_takes_the_place_of_the_text_and_all_keeps_its_order(
    blocks: list[dict[str, Any]], sent: str, expected: list[dict[str, Any]]
) -> None:
    """Anthropic wants thinking blocks back where they stood."""
    assert list(with_text(tuple(blocks), sent)) == expected
