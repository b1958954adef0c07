"""The parameters of a request: those that an agent allows, by the names of its provider."""

from typing import Any

import pytest

from agentchat.directory.agent_config import AgentSettings
from agentchat.directory.request_parameters import override_parameters, select_parameters

ALL = ("temperature", "top_p", "max_tokens", "stop", "seed", "reasoning_effort", "parallel_tool_calls")
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
EFFORT = {"output_config": {"effort": "low"}}
CASES: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("openai", {"max_tokens": 5, "seed": 1}, {"max_tokens": 9}, {"max_completion_tokens": 9, "seed": 1}),
    ("openai", {"temperature": 1}, {"temperature": 0, "stop": "x"}, {"temperature": 0, "stop": "x"}),
    ("openai", {}, {"reasoning_effort": "xhigh", "seed": 3}, {"reasoning_effort": "xhigh", "seed": 3}),
    ("anthropic", {"top_p": 0.9}, {"temperature": 1.7}, {"temperature": 1}),
    ("anthropic", {"temperature": 1}, {"top_p": 0.5}, {"top_p": 0.5}),
    ("anthropic", {}, {"temperature": 0.1, "top_p": 0.5, "seed": 1}, {"temperature": 0.1}),
    ("anthropic", {}, {"stop": ["\n", "END"]}, {"stop_sequences": ["END"]}),
    ("anthropic", THINKING, {"max_tokens": 100, "temperature": 0}, THINKING | {"max_tokens": 2100}),
    ("anthropic", EFFORT, {"reasoning_effort": "xhigh"}, {"output_config": {"effort": "high"}}),
    ("anthropic", EFFORT, {"reasoning_effort": "none"}, EFFORT),
    (
        "anthropic",
        {},
        {"parallel_tool_calls": False},
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    ),
    (
        "anthropic",
        {"tool_choice": {"type": "none"}},
        {"parallel_tool_calls": True},
        {"tool_choice": {"type": "none"}},
    ),
]


@pytest.mark.parametrize(("provider", "own", "requested", "expected"), CASES)
def test_request_overrides_the_agents_parameters(
    provider: str, own: dict[str, Any], requested: dict[str, Any], expected: dict[str, Any]
) -> None:
    agent = AgentSettings(
        name="a",
        model="m",
        provider=provider,
        parameters=own,
        request_parameters=ALL,  # type: ignore[arg-type]
    )
    assert override_parameters(agent, requested) == expected
    assert agent.parameters == own


def test_only_allowed_parameters_are_selected() -> None:
    requested = {"temperature": 0.5, "seed": 1, "stop": "x"}
    assert select_parameters(AgentSettings(name="a", model="m"), requested) == {
        "temperature": 0.5,
        "stop": "x",
    }
    closed = AgentSettings(name="a", model="m", request_parameters=())
    assert override_parameters(closed, requested) == {}
