"""Patterns of JSON Schema mean here what ECMA 262 says: Node agrees with each row (`new RegExp(…, "u")`)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentchat.contracts.ecma_patterns import translate_pattern, translate_schema

ROWS = [
    ("^a$", "a", True),
    ("^a$", "a\n", False),
    ("^a$", "b\na", False),
    (r"^[$]\$$", "$$", True),
    (r"^[$]\$$", "$$\n", False),
    ("a$|b", "a\n", False),
    ("(a$)", "a\n", False),
    ("(?!a$)a", "a\n", True),
    (r"^\d$", "1", True),
    (r"^\d$", "\u0661", False),
    (r"^\D$", "\u0661", True),
    (r"^[\d]$", "\u0661", False),
    (r"^[^\d]$", "\u0661", True),
    (r"^\w$", "ö", False),
    (r"^\W$", "ö", True),
    (r"^[\w-]+$", "a-b", True),
    (r"\bä", "ä", False),
    (r"^\s$", "\u00a0", True),
    (r"^\s$", "\ufeff", True),
    (r"^\s$", "\x85", False),
    (r"^\s$", "\x1c", False),
    (r"^[\s]$", "\u2028", True),
    (r"^[^\s]$", "\u2028", False),
    (r"^\S$", "\ufeff", False),
    (r"^[\s\S]$", "\u00a0", True),
    ("^.$", "\r", False),
    ("^.$", "\u2028", False),
    ("^.$", "\U0001f600", True),
    ("^[.]$", ".", True),
    ("^[.]$", "a", False),
    (r"^\.$", ".", True),
    ("^[]$", "", False),
    ("^[^]$", "\n", True),
    (r"^\u{1f600}$", "\U0001f600", True),
    (r"^[\u{1f600}-\u{1f602}]$", "\U0001f601", True),
    (r"^\u00e4\x41\/$", "äA/", True),
    (r"^\cJ$", "\n", True),
    (r"^(?<one>a|b)\k<one>$", "aa", True),
    (r"^(?<one>a|b)\k<one>$", "ab", False),
    (r"(?<=a)b$", "ab", True),
    (r"(?<!a)b$", "ab", False),
    (r"^[[]$", "[", True),
    (r"^[\[\]]$", "]", True),
    (r"^a{2,3}$", "aaa", True),
    (r"^\\$", "\\", True),
    (r"^\\$", "\\\n", False),
]


@pytest.mark.parametrize(("pattern", "text", "matches"), ROWS)
def test_a_pattern_matches_what_ecma_262_says(pattern: str, text: str, matches: bool) -> None:
    assert bool(re.search(translate_pattern(pattern), text)) is matches


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"(?i)^\w$", "Ä", False),
        ("(?i)^a$", "A", True),
        ("(?i)^a$", "A\n", False),
        ("(?m)^a$", "a\nb", True),
        ("(?s)^.$", "\n", True),
        (r"\Aa\Z", "a\n", False),
        ("(?P<one>a)(?P=one)", "aa", True),
    ],
)
def test_what_only_python_has_goes_on_to_work(pattern: str, text: str, matches: bool) -> None:
    assert bool(re.search(translate_pattern(pattern), text)) is matches


@given(st.text("^$.[]()|*+?{}\\dDwWsSbBuk<>:=!aAzZ0,-/\n", max_size=12))
def test_no_pattern_breaks_the_translation_and_none_is_slow(pattern: str) -> None:
    assert isinstance(translate_pattern(pattern), str)


@pytest.mark.parametrize("pattern", [r"\p{L}", "(", "[a", "a{2,1}", r"\q"])
def test_what_is_no_pattern_is_none_afterwards(pattern: str) -> None:
    with pytest.raises(re.error):
        re.compile(translate_pattern(pattern))


def test_patterns_are_rewritten_only_where_schemas_have_them() -> None:
    originals: dict[str, str] = {}
    schema = {
        "properties": {
            "pattern": {"type": "string", "pattern": "^a$"},
            "patternProperties": {"const": {"pattern": "^a$"}},
        },
        "patternProperties": {"^b$": {"anyOf": [{"pattern": "^c$"}, True]}},
        "additionalProperties": {"$ref": "#/$defs/d"},
        "$defs": {"d": {"items": {"pattern": "d"}, "enum": [{"pattern": "^e$"}]}},
    }
    assert translate_schema(schema, originals) == {
        "properties": {
            "pattern": {"type": "string", "pattern": r"^a\Z"},
            "patternProperties": {"const": {"pattern": "^a$"}},
        },
        "patternProperties": {r"^b\Z": {"anyOf": [{"pattern": r"^c\Z"}, True]}},
        "additionalProperties": {"$ref": "#/$defs/d"},
        "$defs": {"d": {"items": {"pattern": "d"}, "enum": [{"pattern": "^e$"}]}},
    }
    assert originals == {r"^a\Z": "^a$", r"^c\Z": "^c$", "d": "d"}


def test_a_name_that_a_reference_leads_through_stays() -> None:
    schema = {
        "patternProperties": {"^b$": {"pattern": "^c$"}},
        "items": {"$ref": "#/patternProperties/%5Eb$"},
    }
    assert set(translate_schema(schema, {})["patternProperties"]) == {"^b$"}
