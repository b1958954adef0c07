"""The table of parameters of agents on OpenAI's wire."""

from typing import Any

import pytest

from contracts.admin_errors import Invalid
from directory.parameters import check_parameters, max_tokens


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"temperature": 2, "top_p": 1, "seed": -1, "stop": "x", "reasoning_effort": "low"},
        {"max_tokens": 9},
        {"max_completion_tokens": 9, "stop": ["a", "b"], "metadata": {"a": "b"}, "tool_choice": "none"},
        {"dialect": "vllm", "extra_body": {"top_k": 20, "chat_template_kwargs": {"enable_thinking": False}}},
        {"temperature": None},
    ],
)
def test_what_the_api_takes_is_taken(parameters: dict[str, Any]) -> None:
    check_parameters("openai", parameters)


@pytest.mark.parametrize(
    ("parameters", "field", "words"),
    [
        ({"temprature": 1}, "temprature", "did you mean temperature"),
        ({"temperature": 2.1}, "temperature", "<= 2"),
        ({"max_tokens": 0}, "max_tokens", ">= 1"),
        ({"max_tokens": 1, "max_completion_tokens": 1}, "max_tokens", "another name"),
        ({"stop_sequences": ["x"]}, "stop_sequences", "called stop"),
        ({"top_k": 1}, "top_k", "extra_body"),
        ({"thinking": {"type": "enabled"}}, "thinking", "extra_body"),
        ({"model": "x"}, "model", "set by the service"),
        ({"stream_options": {}}, "stream_options", "set by the service"),
        ({"response_format": {}}, "response_format", "output_schema"),
        ({"tool_choice": "required"}, "tool_choice", "never ends"),
        ({"tool_choice": {"type": "function"}}, "tool_choice", "never ends"),
        ({"reasoning_effort": "huge"}, "reasoning_effort", "Invalid enum value"),
        ({"dialect": "klingon"}, "dialect", "one of azure"),
        ({"extra_body": {"messages": []}}, "extra_body.messages", "set by the service"),
        ({"extra_body": {"temperature": 1}}, "extra_body.temperature", "is a parameter itself"),
    ],
)
def test_what_it_does_not_take_is_refused_by_name(parameters: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(Invalid, match=words) as caught:
        check_parameters("openai", parameters)
    assert caught.value.field == f"parameters.{field}"


def test_a_reply_is_bounded_where_the_agent_says_so() -> None:
    assert max_tokens("openai", {"max_tokens": 5}) == max_tokens("openai", {"max_completion_tokens": 5}) == 5
    assert max_tokens("openai", {}) is None
