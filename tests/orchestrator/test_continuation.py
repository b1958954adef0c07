"""Going on with interrupted text: which models take a prefill, and where the new text joins the old."""

import pytest

from orchestrator.models.anthropic.continuation import takes_prefill
from orchestrator.models.continuation import Seam, going_on

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
