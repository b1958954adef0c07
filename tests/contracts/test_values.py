"""Ids, texts, subjects and the error table."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentchat.contracts import errors, ids, subjects
from agentchat.contracts.text_checks import clean_json, clean_text, escape_controls, has_controls, is_storable
from agentchat.contracts.values import Usage


@pytest.mark.parametrize("text", ["", "0" * 32, "4BF92F35" * 4, "4bf9", "4bf9\n" + "0" * 28])
def test_what_is_no_trace_id_is_not_taken_for_one(text: str) -> None:
    assert not ids.is_trace_id(text)


@given(st.text(alphabet=st.characters(), max_size=50))
def test_cleaned_text_can_always_be_stored(text: str) -> None:
    assert is_storable(clean_text(text))
    assert "\x00" not in clean_text(text)
    if is_storable(text) and "\x00" not in text:
        assert clean_text(text) == text


def test_cleaning_reaches_every_string_of_a_json_value() -> None:
    assert clean_json({"a\x00": ["\ud800", {"b": "c\x00"}], "n": 1}) == {
        "a\ufffd": ["\ufffd", {"b": "c\ufffd"}],
        "n": 1,
    }


@given(st.text(max_size=50))
def test_what_is_escaped_says_the_same_and_drives_no_terminal(text: str) -> None:
    written = json.dumps(text, ensure_ascii=False).encode()
    assert json.loads(escape_controls(written)) == text
    assert not has_controls(escape_controls(written).decode())


def test_token_count_holds_all_four_kinds() -> None:
    first = Usage(input_tokens=1, output_tokens=2, cache_read_tokens=4, cache_creation_tokens=8)
    assert (first + first).total == 30


@pytest.mark.parametrize("call_id", ["a.b", "a b", "*", ">", "", "x" * 200, "é"])
def test_a_call_id_that_is_no_subject_token_is_replaced_by_its_digest(call_id: str) -> None:
    subject = subjects.format_tool_result("4bf92f3577b34da6a3ce929d0e0e4736", call_id)
    assert subject.count(".") == 4
    assert subject.rsplit(".", 1)[1].startswith("h-")


def test_an_unknown_code_is_an_internal_error() -> None:
    assert errors.get_error_code("no_such_code").status == 500


def test_every_429_and_503_says_when_to_come_back() -> None:
    assert all(row.retry_after for row in errors.ERRORS.values() if row.status in (429, 503))
