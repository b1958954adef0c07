"""Which of Anthropic's models go on from a partial assistant message; the others are instructed to."""

import re
from collections.abc import Mapping
from typing import Any

from orchestrator.models.continuation import going_on
from orchestrator.models.port import ModelCall

# Prefill ended with the 4.6 generation (platform.claude.com, Messages API errors: prefill not supported).
_PREFILLED = re.compile(r"claude-(?:[23]|instant|(?:opus|sonnet|haiku)-(?:3|4-[015](?!\d)|4-\d{8}|4$))|demo-")


def messages_of(call: ModelCall) -> list[dict[str, Any]]:
    """The call's messages, with the order to go on after what was sent before."""
    if not call.already_sent:
        return call.messages
    prefill = takes_prefill(call.model, call.parameters)
    return going_on(call.messages, call.already_sent, prefill=prefill)


def takes_prefill(model: str, parameters: Mapping[str, Any]) -> bool:
    """Whether the model goes on from a partial assistant message; with thinking on, none does."""
    thinking = parameters.get("thinking")
    if isinstance(thinking, Mapping) and thinking.get("type") != "disabled":
        return False
    return _PREFILLED.match(model) is not None
