"""The parameters of a model call that an agent may set, as Anthropic's Messages API takes them.

Names and kinds are those of the SDK's `MessageCreateParams` (anthropic 2.11), and the sampling parameters
that the API takes for older models.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, field

from contracts.admin_errors import Invalid
from directory.parameters.shape import DEFAULT_MAX_TOKENS, MOST, Fraction, Part, check_name, converted

_OURS = {"model", "messages", "system", "stream", "tools", "output_format", "mcp_servers"}
_ELSEWHERE = {
    "betas": "is a header, and cannot be set here",
    "user_profile_id": "is a header, and cannot be set here",
    "workspace_id": "is a header, and cannot be set here",
}
_LEAST_TOP_P_THINKING = 0.95

Display = Literal["summarized", "omitted"]


class ThinkingEnabled(Part, frozen=True, tag_field="type", tag="enabled"):
    budget_tokens: Annotated[int, Meta(ge=1024, le=MOST)]
    display: Display | None = None


class ThinkingAdaptive(Part, frozen=True, tag_field="type", tag="adaptive"):
    display: Display | None = None


class ThinkingBetweenTools(Part, frozen=True, tag_field="type", tag="between_tools"):
    """The model thinks after tool results."""


class ThinkingDisabled(Part, frozen=True, tag_field="type", tag="disabled"):
    """No thinking."""


class ToolChoiceAuto(Part, frozen=True, tag_field="type", tag="auto"):
    disable_parallel_tool_use: bool = False


class ToolChoiceNone(Part, frozen=True, tag_field="type", tag="none"):
    """The model sees the tools and may not call any."""


class Metadata(Part, frozen=True):
    """`user_id`: an opaque id, no name and no address."""

    user_id: Annotated[str, Meta(max_length=256)] | None = None


class OutputConfig(Part, frozen=True):
    """`format` is not here: an agent's output type says it."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class CacheOff(Part, frozen=True, tag_field="type", tag="off"):
    """The prompt is not to be cached; the one value here that is not the provider's own."""


class CacheControl(Part, frozen=True, tag_field="type", tag="ephemeral"):
    """How long the prompt is to be cached, 5 minutes if not said; the service says where."""

    ttl: Literal["5m", "1h"] | UnsetType = UNSET


class Diagnostics(Part, frozen=True):
    """Why the cache was missed."""

    previous_message_id: str | None = None


class Parameters(Part, frozen=True, kw_only=True):
    """All that an agent may set."""

    max_tokens: Annotated[int, Meta(ge=1, le=MOST)] = DEFAULT_MAX_TOKENS
    temperature: Fraction | None = None
    top_p: Fraction | None = None
    top_k: Annotated[int, Meta(ge=0, le=MOST)] | None = None
    stop_sequences: Annotated[list[Annotated[str, Meta(pattern=r"\S")]], Meta(max_length=64)] = field(
        default_factory=list
    )
    thinking: ThinkingEnabled | ThinkingAdaptive | ThinkingBetweenTools | ThinkingDisabled | UnsetType = UNSET
    tool_choice: ToolChoiceAuto | ToolChoiceNone | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET
    output_config: OutputConfig | UnsetType = UNSET
    service_tier: Literal["auto", "standard_only"] | UnsetType = UNSET
    speed: Literal["standard", "fast"] | None = None
    inference_geo: str | None = None
    cache_control: CacheControl | CacheOff | None = None
    container: str | dict[str, Any] | None = None
    diagnostics: Diagnostics | None = None


def check(parameters: dict[str, Any]) -> None:
    """Raises Invalid, with the field's path, for what the provider would refuse in every call."""
    for name in parameters:
        check_name(name, Parameters, ours=_OURS, elsewhere=_ELSEWHERE)
    _check_tool_choice(parameters.get("tool_choice"))
    _check_format(parameters.get("output_config"))
    _check_together(converted(parameters, Parameters))


def max_tokens(parameters: dict[str, Any]) -> int:
    return int(parameters.get("max_tokens", DEFAULT_MAX_TOKENS))


def summarising(parameters: dict[str, Any]) -> dict[str, Any]:
    """Without stop sequences, and with room for a summary."""
    given = {name: value for name, value in parameters.items() if name != "stop_sequences"}
    return given | {"max_tokens": max(max_tokens(parameters), DEFAULT_MAX_TOKENS)}


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
