"""The parameters of a model call that an agent may set, as Anthropic's Messages API takes them.

Names and kinds are those of the SDK's `MessageCreateParams` (anthropic 2.11), and the sampling parameters
that the API takes for older models. What the service says itself, an agent cannot say instead. Which of them
a model takes is the model's affair: `agents check` asks it.
"""

import difflib
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from directory.errors import Invalid

DEFAULT_MAX_TOKENS = 4096
"""What a call asks for where the agent does not say."""

_OURS = {"model", "messages", "system", "stream", "tools", "output_format", "mcp_servers"}
_ELSEWHERE = {
    "betas": "is a header, and cannot be set here",
    "user_profile_id": "is a header, and cannot be set here",
    "workspace_id": "is a header, and cannot be set here",
}
_LEAST_TOP_P_THINKING = 0.95

_MOST = 2**31 - 1  # more than any model takes, and what every client and server can count to

Share = Annotated[float, Meta(ge=0, le=1)]
Display = Literal["summarized", "omitted"]


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Of this shape and no other."""


class ThinkingEnabled(_Part, frozen=True, tag_field="type", tag="enabled"):
    """Thinking with a budget, in tokens, of `max_tokens`."""

    budget_tokens: Annotated[int, Meta(ge=1024, le=_MOST)]
    display: Display | None = None


class ThinkingAdaptive(_Part, frozen=True, tag_field="type", tag="adaptive"):
    """The model decides when and how much to think."""

    display: Display | None = None


class ThinkingBetweenTools(_Part, frozen=True, tag_field="type", tag="between_tools"):
    """The model thinks behind tool results."""


class ThinkingDisabled(_Part, frozen=True, tag_field="type", tag="disabled"):
    """No thinking."""


class ToolChoiceAuto(_Part, frozen=True, tag_field="type", tag="auto"):
    """The model decides whether to call tools, and whether several at once."""

    disable_parallel_tool_use: bool = False


class ToolChoiceNone(_Part, frozen=True, tag_field="type", tag="none"):
    """The model sees the tools and may not call any."""


class Metadata(_Part, frozen=True):
    """`user_id`: an opaque id, no name and no address."""

    user_id: Annotated[str, Meta(max_length=256)] | None = None


class OutputConfig(_Part, frozen=True):
    """`format` is not here: an agent's output type says it."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class CacheControl(_Part, frozen=True):
    """Where the prompt is to be cached: up to its end."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | UnsetType = UNSET


class Diagnostics(_Part, frozen=True):
    """Why the cache was missed."""

    previous_message_id: str | None = None


class Parameters(_Part, frozen=True, kw_only=True):
    """All that an agent may set."""

    max_tokens: Annotated[int, Meta(ge=1, le=_MOST)] = DEFAULT_MAX_TOKENS
    temperature: Share | None = None
    top_p: Share | None = None
    top_k: Annotated[int, Meta(ge=0, le=_MOST)] | None = None
    stop_sequences: Annotated[list[Annotated[str, Meta(pattern=r"\S")]], Meta(max_length=64)] = []
    thinking: ThinkingEnabled | ThinkingAdaptive | ThinkingBetweenTools | ThinkingDisabled | UnsetType = UNSET
    tool_choice: ToolChoiceAuto | ToolChoiceNone | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET
    output_config: OutputConfig | UnsetType = UNSET
    service_tier: Literal["auto", "standard_only"] | UnsetType = UNSET
    speed: Literal["standard", "fast"] | None = None
    inference_geo: str | None = None
    cache_control: CacheControl | None = None
    container: str | dict[str, Any] | None = None
    diagnostics: Diagnostics | None = None


def check_parameters(parameters: dict[str, Any]) -> None:
    """Raises Invalid, with the field's path, for what the provider would refuse in every call."""
    for name in parameters:
        _check_name(name)
    _check_tool_choice(parameters.get("tool_choice"))
    _check_format(parameters.get("output_config"))
    try:
        given = msgspec.convert(parameters, Parameters)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        raise Invalid(f"parameters{path.rstrip('`')}", _plainly(reason)) from None
    _check_together(given)


def _check_name(name: str) -> None:
    if name in _OURS:
        raise Invalid(f"parameters.{name}", "is set by the service")
    if name in _ELSEWHERE:
        raise Invalid(f"parameters.{name}", _ELSEWHERE[name])
    known = Parameters.__struct_fields__
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
        raise Invalid(f"parameters.{name}", f"is no parameter of the provider; {hint}")


def _check_tool_choice(choice: Any) -> None:
    if isinstance(choice, dict) and choice.get("type") in ("any", "tool"):
        raise Invalid("parameters.tool_choice.type", "must be auto or none: a tool in every round never ends")


def _check_format(config: Any) -> None:
    if isinstance(config, dict) and "format" in config:
        raise Invalid("parameters.output_config.format", "is set by output_type json and its output_schema")


def _check_together(given: Parameters) -> None:
    """Combinations that every model refuses (Messages API, thinking)."""
    thinking = given.thinking
    if isinstance(thinking, ThinkingEnabled) and thinking.budget_tokens >= given.max_tokens:
        raise Invalid(
            "parameters.thinking.budget_tokens", f"must be less than max_tokens, which is {given.max_tokens}"
        )
    if not isinstance(thinking, ThinkingEnabled | ThinkingAdaptive):
        return
    if given.temperature not in (None, 1):
        raise Invalid("parameters.temperature", "must be 1 or left out where the model thinks")
    if given.top_k is not None:
        raise Invalid("parameters.top_k", "must be left out where the model thinks")
    if given.top_p is not None and given.top_p < _LEAST_TOP_P_THINKING:
        raise Invalid("parameters.top_p", f"must be {_LEAST_TOP_P_THINKING} to 1 where the model thinks")


def _plainly(reason: str) -> str:
    """msgspec's words without its quotation marks, and a pattern said in words."""
    if "matching regex" in reason:
        return "must hold more than blanks"
    return reason.replace("`", "").replace("Object contains", "holds")
