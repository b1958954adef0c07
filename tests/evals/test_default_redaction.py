"""The default rules take time in proportion to the text."""

import re
import time

import pytest

from agentchat.evals.case_redaction import CaseRedactor
from agentchat.evals.redaction_rules import RedactionRule
from agentchat.evals.suite import parse_settings, render_settings
from tests.evals.test_case_redaction import run_with

DEFAULT_RULES = parse_settings(render_settings("agent", "account")).redact
SIZE = 30_000
PIECES = [
    *("a", "0", "_", ".", "-", "+", "@", " ", "\n", "(", "é", "한", "\u200b"),
    *("a.", "a@", "a+b", "@a.", "a@b.", "+1 ", "2-", "AB12", "a@a.a", "GB00 "),
]


@pytest.mark.parametrize("rule", DEFAULT_RULES, ids=lambda rule: rule.label)
def test_a_default_rule_is_linear(rule: RedactionRule) -> None:
    """A quadratic one would take some 450 million steps for such a text."""
    pattern = re.compile(rule.pattern or "")
    for piece in PIECES:
        text = (piece * SIZE)[:SIZE]
        for each in (text, f"+{text}", f"{text}@", f"a@{text}", f"a@b.{text}", f"{text}!"):
            began = time.process_time()
            for _ in pattern.finditer(each):
                pass
            assert time.process_time() - began < 0.5, ascii(each[:20])


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("ada@my\u2011shop.example", "email"),
        ("o\u2019brien@shop.example", "email"),
        ("https://shop.example/stop?mail=ada%40shop.example", "email"),
        ("+49\u2011171\u20111234567", "phone"),
        ("4111\u20131111\u20131111\u20131111", "card"),
        ("3782 822463 10005", "card"),
        ("378282246310005", "card"),
        ("DE89\u00a03704\u00a00044\u00a00532\u00a00130\u00a000", "iban"),
    ],
)
def test_the_default_rules_find_what_people_write(text: str, label: str) -> None:
    case = run_with(text)
    found = CaseRedactor(DEFAULT_RULES).redact_case(case)
    assert label in found.redacted
    assert not re.search(r"ada|brien|[0-9]{4}", found.fold_run().user_text)


def test_redaction_by_the_default_rules_is_linear() -> None:
    for piece in PIECES:
        case = run_with((piece * SIZE)[:SIZE])
        began = time.process_time()
        CaseRedactor(DEFAULT_RULES).redact_case(case)
        assert time.process_time() - began < 1.5, ascii(piece)
