"""Redaction finds a value in whatever form it is written."""

import json
import re

import pytest

from agentchat.evals.errors import NotACase
from agentchat.evals.redaction_rules import RedactionRule
from tests.conversations import given
from tests.evals.test_case_redaction import redact, run_with


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
        ("555-01234", "555\u201101234"),
        ("55501234", "555\u201301234"),
        ("55501234", "\u0665\u0665\u0665\u0660\u0661\u0662\u0663\u0664"),
        ("+49 171 1234567", "49-171-1234567"),
        ("-55501234", "55501234"),
        ("O'Brien", "O\u2019Brien"),
        ("O\u2019Brien", "O\\u0027Brien"),
        ("Zoë", "Zo\\u00EB"),
        ("Anna-Maria", "Anna\u2011Maria"),
        ("Zoë", "Zoe\u200d\u0308"),
        ("Ada Lovelace", "A\u034fda \U000e0041Love\u180elace"),
    ],
)
def test_another_form_of_a_value_is_not_left(value: str, text: str) -> None:
    use = given.build_tool_called([given.use("1", secret=value)])
    case = run_with(f"It is {text}, yes.", *use, given.build_tool_returned("1", json.dumps({"x": text})))
    found = redact(case, RedactionRule(field="get_order.input.secret", replacement="[S{n}]"))
    run = found.fold_run()
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


@pytest.mark.parametrize(
    "output",
    [
        '{"name":"Ada Lovelace","score":NaN}',
        '{"name":"Ada Lovelace","score":-Infinity}',
        '{"name":"Ada Lovelace","half":"\\ud83d"}',
        '{"name":"Ada Lovelace","number":1' + "0" * 5_000 + "}",
        json.dumps(json.dumps({"name": "Ada Lovelace"})),
        json.dumps([json.dumps(json.dumps({"name": "Ada Lovelace"}))]),
    ],
    ids=["nan", "infinity", "surrogate", "long number", "in a string", "in strings"],
)
def test_a_field_of_odd_json_is_not_left(output: str) -> None:
    case = run_with(
        "Who?", *given.build_tool_called([given.use("1")]), given.build_tool_returned("1", output)
    )
    found = redact(case, RedactionRule(field="get_order.output.name"))
    (call,) = found.fold_run().rounds[0].calls
    assert "[name 1]" in (call.output or "")
    assert "Lovelace" not in (call.output or "")


def test_json_that_is_nested_too_deeply_is_refused() -> None:
    output = '{"name":"Ada Lovelace","deep":' + "[" * 900 + "]" * 900 + "}"
    case = run_with(
        "Who?", *given.build_tool_called([given.use("1")]), given.build_tool_returned("1", output)
    )
    with pytest.raises(NotACase, match="nested too deeply"):
        redact(case, RedactionRule(field="get_order.output.name"))


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Ada\nLovelace said \uff02hi\uff02", '[name 1] said "hi"'),
        (4111111111111111, "[card 1]"),
        (None, None),
        (True, True),
    ],
)
def test_a_redacted_output_is_json(output: object, expected: object) -> None:
    use = given.build_tool_called([given.use("1", customer="Ada Lovelace")])
    case = run_with("Who?", *use, given.build_tool_returned("1", json.dumps(output, ensure_ascii=False)))
    card = RedactionRule(name="card", pattern="[0-9]{16}")
    (call,) = (
        redact(case, RedactionRule(name="name", field="get_order.input.customer"), card)
        .fold_run()
        .rounds[0]
        .calls
    )
    assert json.loads(call.output or "") == expected


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("n\u00ba [0-9]+", "It is n\u00ba 4711.", "It is [id 1]."),
        ("\u2116 ?[0-9]+", "It is \u2116 4711.", "It is [id 1]."),
        ("Zoe\u0308 [a-z]+\u2026", "Zo\u00eb knows\u2026", "[id 1]"),
        ("x\u2013[0-9]+|x-[a-z]+", "x\u20134711, x\u2011ada", "[id 1], [id 2]"),
        ("4711|n\u00ba 47", "It is n\u00ba 4711.", "It is [id 1]."),
    ],
)
def test_a_pattern_matches_the_text_as_it_was_written(pattern: str, text: str, expected: str) -> None:
    rule = RedactionRule(name="id", pattern=pattern)
    assert redact(run_with(text), rule).fold_run().user_text == expected


@pytest.mark.parametrize("text", ["ada\uff20a.example", "ada@a\u200b.example", "a\u00adda@a.example"])
def test_a_pattern_finds_other_unicode_forms(text: str) -> None:
    rule = RedactionRule(name="email", pattern=r"[a-z]+@[a-z.]+")
    assert redact(run_with(text), rule).fold_run().user_text == "[email 1]"
