"""Choose and translate a request's own parameters for the model's calls (`contracts.http.RunParameters`).

An agent's own parameters have the provider's names; a request's have OpenAI's, whichever provider answers.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from agentchat.directory.agent_config import AgentSettings

ParameterName = Literal[
    "temperature", "top_p", "max_tokens", "stop", "seed", "reasoning_effort", "parallel_tool_calls"
]
DEFAULT_NAMES: tuple[ParameterName, ...] = ("temperature", "top_p", "max_tokens", "stop")
"""The names that an agent allows if it does not say."""

_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high"}
"""Efforts of Anthropic's API, which has fewer than OpenAI's."""


def select_parameters(agent: "AgentSettings", requested: Mapping[str, Any]) -> dict[str, Any]:
    """Return the requested parameters that the agent allows and its provider has."""
    allowed: dict[str, Any] = {
        name: value for name, value in requested.items() if name in agent.request_parameters
    }
    if agent.provider != "anthropic":
        return allowed
    allowed.pop("seed", None)
    if has_thinking_on(agent.parameters):  # the provider refuses these next to thinking
        allowed.pop("temperature", None)
        allowed.pop("top_p", None)
    if "temperature" in allowed:  # the provider takes one of the two
        allowed.pop("top_p", None)
    if not _list_stops(allowed):
        allowed.pop("stop", None)
    if allowed.get("reasoning_effort") not in _EFFORTS:
        allowed.pop("reasoning_effort", None)
    return allowed


def override_parameters(agent: "AgentSettings", requested: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the agent's parameters of a model call, with those of the request in their place."""
    used = select_parameters(agent, requested or {})
    if not used:
        return agent.parameters
    if agent.provider == "anthropic":
        return _override_anthropic(agent.parameters, used)
    limit = used.pop("max_tokens", None)
    if limit is None:
        return agent.parameters | used
    own = {name: value for name, value in agent.parameters.items() if name != "max_tokens"}
    return own | used | {"max_completion_tokens": limit}


def _override_anthropic(own: dict[str, Any], used: Mapping[str, Any]) -> dict[str, Any]:
    parameters = dict(own)
    if "temperature" in used or "top_p" in used:
        parameters.pop("temperature", None)
        parameters.pop("top_p", None)
    for name, value in used.items():
        match name:
            case "temperature":
                parameters["temperature"] = min(value, 1)
            case "top_p":
                parameters["top_p"] = value
            case "max_tokens":
                parameters["max_tokens"] = value + _get_thinking_budget(own)
            case "stop":
                parameters["stop_sequences"] = _list_stops(used)
            case "reasoning_effort":
                parameters["output_config"] = own.get("output_config", {}) | {"effort": _EFFORTS[value]}
            case "parallel_tool_calls" if (choice := own.get("tool_choice") or {"type": "auto"})[
                "type"
            ] == "auto":
                parameters["tool_choice"] = choice | {"disable_parallel_tool_use": not value}
    return parameters


def _list_stops(requested: Mapping[str, Any]) -> list[str]:
    """List the stop sequences that Anthropic's API takes: blank ones are refused there."""
    stop = requested.get("stop") or ()
    return [each for each in ((stop,) if isinstance(stop, str) else stop) if each.strip()]


def has_thinking_on(parameters: Mapping[str, Any]) -> bool:
    """Return True if parameters for Anthropic ask the model to think."""
    thinking = parameters.get("thinking")
    return isinstance(thinking, Mapping) and thinking.get("type") != "disabled"


def _get_thinking_budget(parameters: Mapping[str, Any]) -> int:
    """Return the tokens of a fixed thinking budget, which the provider counts within `max_tokens`."""
    thinking = parameters.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, Mapping) else None
    return budget if isinstance(budget, int) else 0
