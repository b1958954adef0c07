"""The parameters that OpenAI's Chat Completions API takes, for it and the servers that speak it.

Names and kinds are those of the SDK's `CompletionCreateParams` (openai 3.54). What one server takes in
addition goes into `extra_body`, by its own names. `dialect` is ours: which server's ways to follow where its
host does not tell; orchestrator.models.openai.dialects has the table.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from contracts.admin_errors import Invalid
from directory.parameters.shape import MOST, Fraction, Part, check_name, converted

_OURS = frozenset(
    {"model", "messages", "stream", "stream_options", "tools", "functions", "function_call", "n"}
)
_ELSEWHERE = {
    "response_format": "is set by output_type json and its output_schema",
    "max_output_tokens": "is called max_completion_tokens here",
    "stop_sequences": "is called stop here",
    "thinking": "is not of this API; a server's own goes into extra_body",
    "top_k": "is not of this API; a server's own goes into extra_body",
    "logprobs": "has no effect: nothing reads them",
    "audio": "is not offered: replies are text",
    "modalities": "is not offered: replies are text",
    "extra_headers": "is not offered",
}

DIALECTS = (
    *("azure", "compatible", "deepseek", "gemini", "groq", "mistral", "moonshot", "ollama"),
    *("openai", "openrouter", "vllm", "xai", "zai"),
)

Tokens = Annotated[int, Meta(ge=1, le=MOST)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Stop = Annotated[str, Meta(min_length=1)]


class Parameters(Part, frozen=True, kw_only=True):
    """All that an agent may set. A bound of the reply's tokens goes out by the name that the server has."""

    max_completion_tokens: Tokens | None = None
    max_tokens: Tokens | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Fraction | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    stop: Stop | Annotated[list[Stop], Meta(max_length=16)] | None = None
    seed: Annotated[int, Meta(ge=-MOST, le=MOST)] | None = None
    logit_bias: dict[str, Annotated[float, Meta(ge=-100, le=100)]] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    tool_choice: Literal["auto", "none"] | None = None
    parallel_tool_calls: bool | None = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority"] | None = None
    store: bool | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    dialect: str | None = None
    extra_body: dict[str, Any] = msgspec.field(default_factory=dict)


def check(parameters: dict[str, Any]) -> None:
    """Raises Invalid, with the field's path, for what the API would refuse in every call."""
    for name in parameters:
        check_name(name, Parameters, ours=_OURS, elsewhere=_ELSEWHERE)
    if parameters.get("tool_choice") not in (None, "auto", "none"):
        raise Invalid("parameters.tool_choice", "must be auto or none: a tool in every round never ends")
    given = converted(parameters, Parameters)
    if given.max_tokens is not None and given.max_completion_tokens is not None:
        raise Invalid("parameters.max_tokens", "is max_completion_tokens by another name: give one of them")
    if given.dialect not in (None, *DIALECTS):
        raise Invalid("parameters.dialect", f"must be one of {', '.join(DIALECTS)}")
    _check_extra(given.extra_body)


def max_tokens(parameters: dict[str, Any]) -> int | None:
    """What a call with these may write; None: as much as the server lets it."""
    return parameters.get("max_completion_tokens") or parameters.get("max_tokens")


def summarising(parameters: dict[str, Any]) -> dict[str, Any]:
    """Without stop sequences and a bound of the reply's tokens."""
    cutting = ("stop", "max_completion_tokens", "max_tokens")
    return {name: value for name, value in parameters.items() if name not in cutting}


def _check_extra(extra: dict[str, Any]) -> None:
    for name in extra:
        if name in _OURS or name == "response_format":
            raise Invalid(f"parameters.extra_body.{name}", "is set by the service")
        if name in Parameters.__struct_fields__:
            raise Invalid(f"parameters.extra_body.{name}", "is a parameter itself")
