"""The parameters of a model call that an agent may set: a table of each provider's own.

What the service says itself, an agent cannot say instead. Which of them a model takes is the model's affair:
`agents check` asks it.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from contracts.admin_errors import Invalid
from directory.parameters import anthropic, openai
from directory.parameters.shape import DEFAULT_MAX_TOKENS

__all__ = [
    "DEFAULT_MAX_TOKENS",
    "DEFAULT_PROVIDER",
    "PROVIDERS",
    "check_parameters",
    "max_tokens",
    "summarising",
]

DEFAULT_PROVIDER = "anthropic"


class _Table(msgspec.Struct, frozen=True):
    """`check` raises Invalid for what the provider would refuse; `max_tokens` is what a call may write.

    None: as much as the provider lets it. `summarising` has no bounds that are meant for replies.
    """

    check: Callable[[dict[str, Any]], None]
    max_tokens: Callable[[dict[str, Any]], int | None]
    summarising: Callable[[dict[str, Any]], dict[str, Any]]


PROVIDERS = {
    "anthropic": _Table(anthropic.check, anthropic.max_tokens, anthropic.summarising),
    "openai": _Table(openai.check, openai.max_tokens, openai.summarising),
}


def check_parameters(provider: str, parameters: dict[str, Any]) -> None:
    """Raises Invalid, with the field's path, for an unknown provider, and for what it would always refuse."""
    if provider not in PROVIDERS:
        raise Invalid("provider", f"must be one of {', '.join(PROVIDERS)}")
    PROVIDERS[provider].check(parameters)


def max_tokens(provider: str, parameters: dict[str, Any]) -> int | None:
    """What a call with these parameters may write; None: as much as the provider lets it."""
    return PROVIDERS[provider].max_tokens(parameters)


def summarising(provider: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a call that asks for a summary: an agent's own, but for what would cut it short."""
    return PROVIDERS[provider].summarising(parameters)
