"""Define model calls, replies and failures, independent of any provider.

Content blocks have the shapes that the log keeps (`contracts.events.ModelReplied.blocks`): text, thinking,
tool_use and tool_result, as in Anthropic's Messages API, and its image and document, which the log never
has. A provider's folder translates them.
"""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from agentchat.contracts.text_checks import clean_text, shorten_line
from agentchat.contracts.values import ToolSpec, Usage
from agentchat.conversations.aggregate.model_messages import SettledMessages

OnText = Callable[[str], Awaitable[None]]
"""Called with the next piece of a reply's text; the next call follows after it returns."""

StopReason = Literal[
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "refusal",
    "model_context_window_exceeded",
    "pause_turn",
]
"""The reason why a reply ended. Providers translate theirs; an unknown one is passed on."""


class Credentials(msgspec.Struct, frozen=True):
    """The base URL and key of calls. `guarded`: the base URL is the agent's own and must be allowed."""

    base_url: str
    api_key: str
    guarded: bool = False

    def __repr__(self) -> str:
        return f"Credentials(base_url={self.base_url!r})"


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a model.

    `parameters` are the agent's, by the provider's own names, and are sent unchanged. `use_tools` False: the
    tools are listed for the history's sake but may not be used. `tool_choice`: the tool that the reply must
    call by name, or "required" for any. `output_schema`: the reply must be JSON of
    this JSON Schema. `earlier`: the number of content blocks, from the first message, that belong to earlier
    runs. `settled`: the first messages, with JSON that other calls may have encoded. `compaction`: the reply
    must be the provider's own summary, by these instructions or, if "", by its own. `account_id` pays for
    reading the reply. `already_sent`: text of this reply that readers have; the model must continue after it.
    `shared_system`: the first characters of `system` that are the same in all runs; None: all of them.
    `user` is a pseudonym of the end user.
    """

    model: str
    system: str
    shared_system: int | None = None
    messages: list[dict[str, Any]]
    parameters: dict[str, Any]
    tools: tuple[ToolSpec, ...] = ()
    use_tools: bool = True
    tool_choice: str | None = None
    output_schema: dict[str, Any] | None = None
    earlier: int = 0
    settled: SettledMessages | None = None
    compaction: str | None = None
    already_sent: str = ""
    account_id: str = ""
    user: str | None = None


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """A complete reply, fit to be stored and to be sent back to the model.

    `stop_reason` is a StopReason or an unknown word; `raw_stop_reason` is the provider's own. `bad_inputs`
    maps the place of a tool_use block to what is wrong with its input, which is {} then.
    """

    blocks: tuple[dict[str, Any], ...]
    stop_reason: str
    raw_stop_reason: str = ""
    message_id: str = ""
    model: str = ""
    bad_inputs: dict[int, str] = {}
    repaired: str | None = None
    """The problem of a first reply, which this one replaces."""


MOST_TOKENS = 100_000_000
"""Maximum of one call's counts, so that sums fit the database's integers."""


def clamp_tokens(reported: int | None) -> int:
    """Return a reported count within 0 and MOST_TOKENS."""
    return min(max(reported or 0, 0), MOST_TOKENS)


class Meter:
    """A sum of the usage that providers reported, including failed calls."""

    def __init__(self) -> None:
        self.usage = Usage()


class ModelClient(Protocol):
    """The models of one provider. Any number of calls may run at once."""

    async def stream(
        self,
        credentials: Credentials,
        call: ModelCall,
        on_text: OnText | None,
        meter: Meter,
        on_reasoning: OnText | None = None,
    ) -> ModelReply:
        """Stream one reply: its text to `on_text` as it arrives, the thinking before it to `on_reasoning`.

        A retry does not think aloud again.
        Transient failures are retried only while no text was passed on. Raises ModelFailure.
        """

    async def check(self, credentials: Credentials, call: ModelCall) -> None:
        """Make a call and hang up once the provider has accepted it. Raises ModelFailure."""

    def can_enforce(self, base_url: str, parameters: dict[str, Any], schema: dict[str, Any]) -> bool:
        """Return True if a call with this `output_schema` needs no instruction about it."""

    async def aclose(self) -> None:
        """Close the connections."""


class ModelFailure(Exception):  # noqa: N818 - an outcome, named as such
    """A failed model call. `code` is one of `contracts.errors`; `str()` is fit for clients.

    `transient`: the same call may succeed if repeated, in `retry_after` seconds at the earliest. `kind` is a
    word for the log. `provider_message` is the provider's own sentence, for administrators only: it goes into
    no log file and to no client.
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


def clean_provider_message(message: str, key: str) -> str:
    """Return a provider's own sentence to show to administrators: short, and without the key."""
    cleaned = clean_text(message)
    return (cleaned.replace(key, "[hidden]") if key else cleaned)[:_MESSAGE_CHARS]


def make_cut_short(kind: str) -> ModelFailure:
    """Make the failure of a reply that broke off."""
    return ModelFailure("provider_error", _CUT, kind=kind, transient=True)


def make_timeout(kind: str) -> ModelFailure:
    """Make the failure of a call that took too long."""
    return ModelFailure("provider_timeout", kind=kind, transient=True)


_MESSAGE_CHARS = 300
_CUT = "The model provider broke off its reply."
_MESSAGES = {
    "provider_error": "The model provider failed.",
    "provider_timeout": "The model provider did not answer in time.",
    "provider_overloaded": "The model provider is overloaded.",
    "provider_refused": "The model provider declined to answer this message.",
    "context_too_long": "The conversation is too long for the agent's model.",
    "output_invalid": "The model's reply is not valid JSON of the required schema.",
}


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


class PromptHashes(NamedTuple):
    """SHA-256 of a system prompt, of the tools, and of all that precedes a run's own messages."""

    system: str
    tools: str
    prefix: str


def hash_prompt(
    system: str, tools: Sequence[ToolSpec], documents: str, covered: int, changed_files: Sequence[str] = ()
) -> PromptHashes:
    """Hash what precedes a run's own messages and may change during the run."""
    own, listed = hash_text(system), hash_tools(tools)
    prefix = "\0".join((own, listed, hash_text(documents), str(covered), *changed_files))
    return PromptHashes(own, listed, hash_text(prefix))


def hash_tools(tools: Sequence[ToolSpec]) -> str:
    """Return the SHA-256 of the tools as the model sees them, in their order, in hexadecimal."""
    shown = [
        {"name": spec.name, "description": spec.description, "input_schema": spec.input_schema}
        for spec in tools
    ]
    return hashlib.sha256(msgspec.json.encode(shown, order="sorted")).hexdigest()


COMPACTION = "compaction"
"""The type of a block with a provider's own summary, as in Anthropic's Messages API."""


def extract_summary(reply: ModelReply) -> tuple[str, dict[str, Any] | None]:
    """Return a summary's text, "" for none, and the block that its provider gets instead."""
    for block in reply.blocks:
        if block["type"] == COMPACTION:
            return str(block.get("content") or "").strip(), block
    return "".join(block["text"] for block in reply.blocks if block["type"] == "text").strip(), None
