"""Which parameters of a model call are refused when an agent is saved."""

from typing import Any

import pytest

from agentchat.contracts.admin_errors import Invalid
from agentchat.directory.model_parameters import build_summary_parameters, check_parameters, get_max_tokens


@pytest.mark.parametrize(
    ("provider", "parameters"),
    [
        ("anthropic", {}),
        ("anthropic", {"max_tokens": 9, "stop_sequences": ["END"], "tool_choice": {"type": "none"}}),
        ("anthropic", {"cache_control": {"type": "off"}, "thinking": {"type": "adaptive"}, "new": [1]}),
        ("openai", {"max_tokens": 9, "stop": "x", "reasoning_effort": "low"}),
        ("openai", {"max_completion_tokens": 9, "stop": ["a", "b"], "tool_choice": "none"}),
        ("openai", {"dialect": "vllm", "extra_body": {"top_k": 20}}),
        ("openai", {"temperature": None, "new": {"a": 1}}),
    ],
)
def test_provider_parameters_pass(provider: str, parameters: dict[str, Any]) -> None:
    check_parameters(provider, parameters)


@pytest.mark.parametrize(
    ("provider", "parameters", "field", "reason"),
    [
        ("anthropic", {"stream": False}, "stream", "set by the service"),
        ("anthropic", {"betas": ["x"]}, "betas", "is a header"),
        ("anthropic", {"max_tokens": 0}, "max_tokens", ">= 1"),
        ("anthropic", {"tool_choice": {"type": "any"}}, "tool_choice.type", "never ends"),
        ("anthropic", {"output_config": {"format": {}}}, "output_config.format", "output_schema"),
        ("anthropic", {"cache_control": {"type": "on"}}, "cache_control.type", "ephemeral or off"),
        ("openai", {"max_tokens": 1, "max_completion_tokens": 1}, "max_tokens", "older name"),
        ("openai", {"stop_sequences": ["x"]}, "stop_sequences", "called stop"),
        ("openai", {"top_k": 1}, "top_k", "extra_body"),
        ("openai", {"model": "x"}, "model", "set by the service"),
        ("openai", {"response_format": {}}, "response_format", "output_schema"),
        ("openai", {"tool_choice": "required"}, "tool_choice", "never ends"),
        ("openai", {"dialect": "klingon"}, "dialect", "one of azure"),
        ("openai", {"extra_body": {"messages": []}}, "extra_body.messages", "set by the service"),
    ],
)
def test_parameters_set_by_the_service_are_refused(
    provider: str, parameters: dict[str, Any], field: str, reason: str
) -> None:
    with pytest.raises(Invalid, match=reason) as caught:
        check_parameters(provider, parameters)
    assert caught.value.field == f"parameters.{field}"


def test_max_tokens_by_provider() -> None:
    assert (
        get_max_tokens("openai", {"max_tokens": 5})
        == get_max_tokens("openai", {"max_completion_tokens": 5})
        == 5
    )
    assert get_max_tokens("openai", {}) is None
    assert get_max_tokens("anthropic", {}) == 4096


def test_summary_is_not_cut_short() -> None:
    assert build_summary_parameters("openai", {"stop": "x", "max_tokens": 5, "seed": 1}) == {"seed": 1}
    assert build_summary_parameters("anthropic", {"stop_sequences": ["x"], "max_tokens": 5}) == {
        "max_tokens": 4096
    }
    assert build_summary_parameters("anthropic", {"max_tokens": 9000}) == {"max_tokens": 9000}
