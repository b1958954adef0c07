"""Redaction finds a value in whatever form it is written."""

import json
import re

import pytest

from agentchat.evals.redaction_rules import RedactionRule
from tests.conversations import given
from tests.evals.test_case_redaction import redact, run_of_case, run_with


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Zoë Ångström", "Zoe\u0308 A\u030angstro\u0308m"),
        ("Zoe\u0308 Angstrom", "Zoë Angstrom"),
        ("Zoë Ångström", "ZOË ÅNGSTRÖM"),
        ("Straßmann", "STRASSMANN"),
        ("Ada Lovelace", "\uff21\uff44\uff41\u3000\uff2c\uff4f\uff56\uff45\uff4c\uff41\uff43\uff45"),
        ("Ada Lovelace", "Ada\nLovelace"),
        ("Ada Lovelace", "Ada \t\r\n  Lovelace"),
        ("Ada Lovelace", "Ada\u00a0Lovelace"),
        ("Ada Lovelace", "A\u200bda Love\u00adlace"),
        ("Ada\nLovelace", "Ada Lovelace"),
        ('"Ada Lovelace"', "Ada Lovelace"),
        ("“Ada Lovelace”", "Ada Lovelace"),
        ("(Ada Lovelace),", "Ada Lovelace"),
        ("김철수", "\u1100\u1175\u11b7철수"),
        ("55501234", "555-01234"),
        ("55501234", "55 50 12 34"),
        ("55501234", "55,501,234"),
        ("55501234", "55.501.234,00"),
        ("55501234", "\uff15\uff15\uff15\uff10\uff11\uff12\uff13\uff14"),
        ("555-01234", "55501234"),
        ("(555) 01 234", "55501234"),
    ],
)
def test_another_form_of_a_value_is_not_left(value: str, text: str) -> None:
    use = given.build_tool_called([given.use("1", secret=value)])
    case = run_with(f"It is {text}, yes.", *use, given.build_tool_returned("1", json.dumps({"x": text})))
    found = redact(case, RedactionRule(field="get_order.input.secret", replacement="[S{n}]"))
    run = run_of_case(found)
    assert re.fullmatch(r"It is \[S\d\]\S{0,3}, yes\.", run.user_text)
    assert re.search(r"\[S\d\]", run.rounds[0].calls[0].output or "")


@pytest.mark.parametrize(
    "output",
    [
        '{"email":"ada@a.example","email":"bob@b.example"}',
        '{"email":"bob@b.example","x":[{"email":"ada@a.example","email":null}]}',
        '{"note":"{\\"email\\":\\"ada@a.example\\",\\"email\\":\\"x\\"}","email":"bob@b.example"}',
        '{"email":["ada@a.example"],"email":{"x":"bob@b.example"}}',
        '{"email":"ada@a.example","email":"bob@b.example","email":"ada@a.example"}',
    ],
)
@pytest.mark.parametrize(
    "rule",
    [
        RedactionRule(pattern=r"[a-z]+@[a-z.]+"),
        RedactionRule(field="get_order.output"),
    ],
    ids=["pattern", "field"],
)
def test_a_name_that_json_has_twice_is_not_left(output: str, rule: RedactionRule) -> None:
    case = run_with(
        "Who?", *given.build_tool_called([given.use("1")]), given.build_tool_returned("1", output)
    )
    found = redact(case, rule)
    assert not re.search("ada@|bob@", b"".join(bytes(each) for each in found.events).decode())


@pytest.mark.parametrize("text", ["ada\uff20a.example", "ada@a\u200b.example", "a\u00adda@a.example"])
def test_a_pattern_finds_other_unicode_forms(text: str) -> None:
    rule = RedactionRule(name="email", pattern=r"[a-z]+@[a-z.]+")
    assert run_of_case(redact(run_with(text), rule)).user_text == "[email 1]"
