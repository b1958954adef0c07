"""Rules that take too long are ended, and the default rules are linear."""

import asyncio
import contextlib
import re
import time

import pytest

from agentchat.evals.bounded_rules import RuleProcess, RuleTooSlow
from agentchat.evals.case_redaction import CaseRedactor
from agentchat.evals.errors import NotACase
from agentchat.evals.redaction_rules import RedactionRule
from agentchat.evals.suite import parse_settings, render_settings
from tests.evals.test_case_redaction import run_with

DEFAULT_RULES = parse_settings(render_settings("agent", "account")).redact
SIZE = 30_000
PIECES = [
    *("a", "0", "_", ".", "-", "+", "@", " ", "\n", "(", "é", "한", "\u200b"),
    *("a.", "a@", "a+b", "@a.", "a@b.", "+1 ", "2-", "AB12", "a@a.a", "GB00 "),
]
SLOW = r"(a|aa)+$"


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


def test_redaction_by_the_default_rules_is_linear() -> None:
    for piece in PIECES:
        case = run_with((piece * SIZE)[:SIZE])
        began = time.process_time()
        with contextlib.suppress(NotACase):
            CaseRedactor(DEFAULT_RULES).redact_case(case)
        assert time.process_time() - began < 1.5, ascii(piece)


async def test_a_slow_pattern_refuses_its_case_and_no_other() -> None:
    rules = [RedactionRule(name="slow", pattern=SLOW)]
    async with RuleProcess(redaction_seconds=0.5, check_seconds=0.5) as process:
        with pytest.raises(NotACase, match="simplify the patterns"):
            async with asyncio.timeout(60):
                await process.redact(rules, run_with("a" * 60 + "!"))
        assert (await process.redact(rules, run_with("xaa"))).redacted == ("slow",)


async def test_a_slow_pattern_or_schema_of_an_evaluator_is_ended() -> None:
    schema = {"type": "string", "pattern": SLOW}
    async with RuleProcess(redaction_seconds=0.5, check_seconds=0.5) as process:
        with pytest.raises(RuleTooSlow):
            await process.search(SLOW, "a" * 60 + "!")
        with pytest.raises(RuleTooSlow):
            await process.validate(schema, f'"{"a" * 60}!"')
        assert await process.search("b+", "abbc") == "bb"
        assert await process.validate({"type": "string"}, "1") == "$: 1 is not of type 'string'"
