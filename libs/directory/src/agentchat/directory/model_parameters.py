"""Check the parameters of model calls that an agent may set.

They have the provider's own names and are sent unchanged. Refused are only parameters that the service sets
itself, values that would break a run, and wrong types of parameters that the service reads. The check of an
agent shows whether the model accepts the others, with the provider's own message.
"""

from collections.abc import Mapping, Set
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from agentchat.contracts.admin_errors import Invalid

DEFAULT_PROVIDER = "anthropic"
DEFAULT_MAX_TOKENS = 4096
"""The `max_tokens` for Anthropic's API, which requires it, if the agent does not set it."""
DIALECTS = (
    *("azure", "compatible", "deepseek", "gemini", "groq", "mistral", "moonshot", "ollama"),
    *("openai", "openrouter", "vllm", "xai", "zai"),
)
"""Values of `dialect`: the conventions to follow if the server's host name does not decide them."""

_MAX_INT = 2**31 - 1  # more than any model allows, and within the range of every client and server
_Tokens = Annotated[int, Meta(ge=1, le=_MAX_INT)]
_Stop = Annotated[str, Meta(pattern=r"\S")]
_SET_BY_SERVICE = "is set by the service"
_OUTPUT_TYPE = "is set by output_type json and its output_schema"
_ENDLESS = "must be auto or none: a tool in every round never ends"


class _AnthropicRead(msgspec.Struct, frozen=True):
    """The parameters of Anthropic's Messages API that the service itself reads."""

    max_tokens: _Tokens = DEFAULT_MAX_TOKENS
    stop_sequences: Annotated[list[_Stop], Meta(max_length=64)] = msgspec.field(default_factory=list)
    tool_choice: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    cache_control: dict[str, Any] | None = None


class _OpenAIRead(msgspec.Struct, frozen=True):
    """The parameters of OpenAI's Chat Completions that the service itself reads."""

    max_completion_tokens: _Tokens | None = None
    max_tokens: _Tokens | None = None
    stop: _Stop | Annotated[list[_Stop], Meta(max_length=16)] | None = None
    tool_choice: str | None = None
    dialect: str | None = None
    think_tags: bool = False
    extra_body: dict[str, Any] = msgspec.field(default_factory=dict)


class ProviderRules(msgspec.Struct, frozen=True):
    """The rules for a provider's parameters."""

    read: type[_AnthropicRead] | type[_OpenAIRead]
    set_by_service: Set[str]
    refused: Mapping[str, str]
    """Parameters that would have no effect or are misplaced, with the reason."""
    cutting: tuple[str, ...]
    """Parameters that may end a reply early; calls for a summary leave them out."""


PROVIDERS: Mapping[str, ProviderRules] = {
    "anthropic": ProviderRules(
        read=_AnthropicRead,
        set_by_service=frozenset(
            {"model", "messages", "system", "stream", "tools", "output_format", "mcp_servers"}
        ),
        refused={
            "betas": "is a header, and cannot be set here",
            "user_profile_id": "is a header, and cannot be set here",
            "workspace_id": "is a header, and cannot be set here",
        },
        cutting=("stop_sequences", "max_tokens"),
    ),
    "openai": ProviderRules(
        read=_OpenAIRead,
        set_by_service=frozenset(
            {"model", "messages", "stream", "stream_options", "tools", "functions", "function_call", "n"}
        ),
        refused={
            "response_format": _OUTPUT_TYPE,
            "max_output_tokens": "is called max_completion_tokens here",
            "stop_sequences": "is called stop here",
            "thinking": "is not part of this API; a server's own parameter goes into extra_body",
            "top_k": "is not part of this API; a server's own parameter goes into extra_body",
            "logprobs": "has no effect: the service does not return them",
            "audio": "is not offered: replies are text",
            "modalities": "is not offered: replies are text",
            "extra_headers": "is not offered",
        },
        cutting=("stop", "max_completion_tokens", "max_tokens"),
    ),
}


def check_parameters(provider: str, parameters: dict[str, Any]) -> None:
    """Check an agent's parameters before they are saved.

    Raises:
        Invalid: With the path of the field, for an unknown provider or a parameter that cannot be set.
    """
    if provider not in PROVIDERS:
        raise Invalid("provider", f"must be one of {', '.join(PROVIDERS)}")
    rules = PROVIDERS[provider]
    for name in parameters:
        if name in rules.set_by_service:
            raise Invalid(f"parameters.{name}", _SET_BY_SERVICE)
        if name in rules.refused:
            raise Invalid(f"parameters.{name}", rules.refused[name])
    read = _convert(parameters, rules.read)
    if isinstance(read, _AnthropicRead):
        _check_anthropic(read)
    else:
        _check_openai(read, rules)


def get_max_tokens(provider: str, parameters: dict[str, Any]) -> int | None:
    """Return the limit of tokens for a reply; None for the provider's own limit."""
    if provider == "openai":
        return parameters.get("max_completion_tokens") or parameters.get("max_tokens")
    return int(parameters.get("max_tokens", DEFAULT_MAX_TOKENS))


def build_summary_parameters(provider: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the agent's parameters without those that may cut a summary short."""
    kept = {name: value for name, value in parameters.items() if name not in PROVIDERS[provider].cutting}
    if provider == "anthropic":
        kept["max_tokens"] = max(int(parameters.get("max_tokens", 0)), DEFAULT_MAX_TOKENS)
    return kept


def _check_anthropic(read: _AnthropicRead) -> None:
    if read.tool_choice and read.tool_choice.get("type") not in ("auto", "none"):
        raise Invalid("parameters.tool_choice.type", _ENDLESS)
    if read.output_config and "format" in read.output_config:
        raise Invalid("parameters.output_config.format", _OUTPUT_TYPE)
    if read.cache_control and read.cache_control.get("type") not in ("ephemeral", "off"):
        raise Invalid("parameters.cache_control.type", "must be ephemeral or off")


def _check_openai(read: _OpenAIRead, rules: ProviderRules) -> None:
    if read.tool_choice not in (None, "auto", "none"):
        raise Invalid("parameters.tool_choice", _ENDLESS)
    if read.max_tokens is not None and read.max_completion_tokens is not None:
        raise Invalid(
            "parameters.max_tokens", "is an older name of max_completion_tokens: give only one of them"
        )
    if read.dialect not in (None, *DIALECTS):
        raise Invalid("parameters.dialect", f"must be one of {', '.join(DIALECTS)}")
    for name in read.extra_body:
        if name in rules.set_by_service or name == "response_format":
            raise Invalid(f"parameters.extra_body.{name}", _SET_BY_SERVICE)


def _convert(
    parameters: dict[str, Any], read: type[_AnthropicRead] | type[_OpenAIRead]
) -> _AnthropicRead | _OpenAIRead:
    try:
        return msgspec.convert(parameters, read)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        if "matching regex" in reason:
            reason = "must contain more than white space"
        raise Invalid(f"parameters{path.rstrip('`')}", reason.replace("`", "")) from None
