"""Ask for thinking that can be shown, and find it in a model's text. Pure."""

import re
from typing import Literal

from msgspec.structs import replace

from agentchat.directory.agent_config import AgentConfig

BEFORE_4_6 = r"claude-(?:[23]|instant|(?:opus|sonnet|haiku)-(?:3|4-[015](?!\d)|4-\d{8}|4$))"
"""The Claude models that think with `budget_tokens` only, and show it (platform.claude.com, thinking)."""

_ADAPTIVE = re.compile(rf"(?!.*{BEFORE_4_6})(?:.*claude-|demo-)")
_BEGIN, _END = "<think>", "</think>"


def ask_for_thinking(agent: AgentConfig) -> AgentConfig:
    """Return the agent with the parameters that make its model think visibly, if its `reasoning` is summary.

    Claude models from the 4.6 generation on need them: they show nothing unless they are asked. For all other
    models the agent's own parameters decide.
    """
    thinking = agent.parameters.get("thinking", {"type": "adaptive"})
    if agent.reasoning != "summary" or agent.provider != "anthropic" or not _ADAPTIVE.match(agent.model):
        return agent
    if not isinstance(thinking, dict) or thinking.get("type") == "disabled":
        return agent
    asked = {"thinking": {"display": "summarized"} | thinking}
    return replace(agent, parameters=agent.parameters | asked)


class ThinkTags:
    """Splits the thinking in `<think>` and `</think>` off the beginning of a text that comes in pieces."""

    def __init__(self) -> None:
        self._held = ""
        self._has_thought = False
        self._state: Literal["begin", "thinking", "gap", "text"] = "begin"

    def split(self, piece: str) -> tuple[str, str]:
        """Return the text and the thinking that `piece` adds; what may be part of a tag waits."""
        thought, self._held = "", self._held + piece
        if self._state == "begin":
            begun = self._held.lstrip()
            if begun.startswith(_BEGIN):
                self._held, self._state = begun[len(_BEGIN) :], "thinking"
            elif _BEGIN.startswith(begun):
                return "", ""
            else:
                self._state = "text"
        if self._state == "thinking":
            self._held = self._held if self._has_thought else self._held.lstrip()
            thought, end, rest = self._held.partition(_END)
            if end:
                self._held, self._state = rest, "gap"
            else:
                thought = thought[: len(thought) - _count_end_of_tag(thought)]
                self._held, self._has_thought = self._held[len(thought) :], self._has_thought or thought != ""
                return "", thought
        if self._state == "gap":
            self._held = self._held.lstrip()
            self._state = "text" if self._held else "gap"
        text, self._held = self._held, ""
        return text, thought

    def flush(self) -> tuple[str, str]:
        """Return the text and the thinking that waited, at the end of the reply."""
        held, self._held = self._held, ""
        return ("", held) if self._state == "thinking" else (held, "")


def _count_end_of_tag(text: str) -> int:
    """Return the length of the longest end of `text` that `</think>` begins with."""
    return next(size for size in range(len(_END) - 1, -1, -1) if text.endswith(_END[:size]))
