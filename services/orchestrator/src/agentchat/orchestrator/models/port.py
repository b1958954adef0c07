"""The port to a model: what a call is, what comes back, and what can go wrong, in no provider's words.

The shapes of content blocks are those that the log keeps (`contracts.events.ModelReplied.blocks`): text,
thinking, tool_use and tool_result, as Anthropic's Messages API has them. A provider's folder translates them.
"""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol

import msgspec

from agentchat.contracts.text import shorten_line
from agentchat.contracts.values import ToolSpec, Usage
from agentchat.conversations.aggregate.history import SettledMessages

OnText = Callable[[str], Awaitable[None]]
"""Takes the next piece of a reply's text; there is no more of it before it returns."""

StopReason = Literal[
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "refusal",
    "model_context_window_exceeded",
    "pause_turn",
]
"""Why a reply ended. Providers translate theirs; one that is new to us is passed on as it is."""


class Credentials(msgspec.Struct, frozen=True):
    """Where calls go and the key they carry. `guarded`: the address is an agent's own, and is judged."""

    base_url: str
    api_key: str
    guarded: bool = False

    def __repr__(self) -> str:
        return f"Credentials(base_url={self.base_url!r})"


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call.

    `parameters` are the agent's, by the provider's own names, and go out as they are.
    `use_tools` False: the tools are still listed, for the history's sake, and the model may not use them.
    `output_schema`: the reply is to be JSON by this JSON Schema; the provider enforces it as far as it can.
    `earlier`: so many content blocks, counted through the messages from the first, are of earlier runs, and
    later runs will begin with the same; what is after them is of this run. `settled`: the first of
    `messages`, whose JSON other calls may have made.
    `compaction`: the reply is to be the provider's own summary of `messages`, by these instructions; where
    they are "", by its own.
    `account_id`: whose it is; reading the reply takes of that account's share of the worker's loop.
    `already_sent`: text of this very reply that has reached the reader; the model is to continue after it, by
    whatever means the provider has.
    """

    model: str
    system: str
    messages: list[dict[str, Any]]
    parameters: dict[str, Any]
    tools: tuple[ToolSpec, ...] = ()
    use_tools: bool = True
    output_schema: dict[str, Any] | None = None
    earlier: int = 0
    settled: SettledMessages | None = None
    compaction: str | None = None
    already_sent: str = ""
    account_id: str = ""


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """A complete reply, fit to be stored and to be sent back to the model.

    `stop_reason` is a StopReason or a word that is new to us; `raw_stop_reason` is the provider's own.
    `bad_inputs` says, by the place of a tool_use block in `blocks`, why what stood for its input is none;
    the block's input is {} then.
    """

    blocks: tuple[dict[str, Any], ...]
    stop_reason: str
    raw_stop_reason: str = ""
    message_id: str = ""
    model: str = ""
    bad_inputs: dict[int, str] = {}


MOST_TOKENS = 100_000_000
"""Of one call: a count above it is no model's, and sums of such overflow the database's integers."""


def clamp_tokens(reported: int | None) -> int:
    return min(max(reported or 0, 0), MOST_TOKENS)


class Meter:
    """Adds up what calls cost, as far as the provider reported them, whatever became of them."""

    def __init__(self) -> None:
        self.usage = Usage()


class ModelClient(Protocol):
    """A provider's models. Any number of calls may run at once."""

    async def stream(
        self, credentials: Credentials, call: ModelCall, on_text: OnText | None, meter: Meter
    ) -> ModelReply:
        """One reply; its text goes to `on_text` as it arrives, or nowhere until the reply is complete.

        Transient failures are retried only while no text has gone out. Raises ModelFailure.
        """

    async def check(self, credentials: Credentials, call: ModelCall) -> None:
        """Make the call once and hang up as soon as the provider has taken it. Raises ModelFailure."""

    def can_enforce(self, base_url: str, parameters: dict[str, Any], schema: dict[str, Any]) -> bool:
        """Whether a call there, with these parameters and this `output_schema`, needs no instruction."""

    async def aclose(self) -> None:
        """Close the connections."""


class ModelFailure(Exception):  # noqa: N818 - an outcome, named as such
    """A model call that came to nothing. `code` is one of `contracts.errors`; `str()` is fit for the
    client.

    `transient`: the same call may well succeed if it is made again, in `retry_after` seconds at the
    soonest. `kind` is a word for the log, which may be the provider's. `provider_message` is the provider's
    own sentence, for whoever checks an agent's settings: it goes into no log and to no client.
    """

    def __init__(
        self,
        code: str,
        message: str | None = None,
        *,
        kind: str = "",
        transient: bool = False,
        retry_after: float | None = None,
        provider_message: str = "",
    ) -> None:
        super().__init__(message or _MESSAGES[code])
        self.code = code
        self.kind = shorten_line(kind or code)
        self.transient = transient
        self.retry_after = retry_after
        self.provider_message = provider_message


def make_cut_short(kind: str) -> ModelFailure:
    return ModelFailure("provider_error", _CUT, kind=kind, transient=True)


def make_timeout(kind: str) -> ModelFailure:
    return ModelFailure("provider_timeout", kind=kind, transient=True)


_CUT = "The model provider broke off its reply."
_MESSAGES = {
    "provider_error": "The model provider failed.",
    "provider_timeout": "The model provider did not answer in time.",
    "provider_overloaded": "The model provider is overloaded.",
    "provider_refused": "The model provider declined to answer this message.",
    "context_too_long": "The conversation is too long for the agent's model.",
    "output_invalid": "The reply is not the JSON that the agent is to give.",
}


def hash_prompt(call: ModelCall) -> str:
    """Of the system prompt as it is sent, in hexadecimal: replies with equal hashes had the same prefix."""
    return hash_text(call.system)


def hash_text(text: str) -> str:
    """In hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def hash_tools(call: ModelCall) -> str:
    """Of what the model is shown of the tools, in their order, in hexadecimal."""
    shown = [
        {"name": spec.name, "description": spec.description, "input_schema": spec.input_schema}
        for spec in call.tools
    ]
    return hashlib.sha256(msgspec.json.encode(shown, order="sorted")).hexdigest()


COMPACTION = "compaction"
"""The type of a block that the provider made, which only it can read; as Anthropic's Messages API has it."""


def extract_summary(reply: ModelReply) -> tuple[str, dict[str, Any] | None]:
    """The summary as text, "" for none, and the block that its provider is to be sent instead."""
    for block in reply.blocks:
        if block["type"] == COMPACTION:
            return str(block.get("content") or "").strip(), block
    return "".join(block["text"] for block in reply.blocks if block["type"] == "text").strip(), None
