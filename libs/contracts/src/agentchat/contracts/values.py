"""Values that events, messages, frames and the HTTP API share."""

from typing import Any, Literal

import msgspec

Form = str
"""The protocol by which a run was requested: json, form1, form2, or one added since.

An open name: a reader that does not know one reads the run all the same.
"""

Role = Literal["user", "assistant"]

Approvers = Literal["account", "operator"]
"""Who may decide about a tool call: holders of the account's keys, or an operator alone."""

OnExpiry = Literal["continue", "fail"]
"""What becomes of a run about whose tool calls nobody has decided in time."""

OnNewMessage = Literal["refuse", "supersede"]
"""What becomes of a new message while a run waits for approvals: of it, or of the run."""

ApprovalDecision = Literal["approved", "denied", "expired", "cancelled"]

Cut = Literal["length", "refusal"]
"""Why a saved reply is incomplete: the model reached a limit of its length, or refused to continue."""


MAX_TITLE = 256
MAX_PAIRS = 16
MAX_KEY = 64
MAX_VALUE = 512
"""Of a conversation's title and metadata: characters, pairs, characters of a key and of a value."""

MAX_LABEL = 64
MAX_COMMENT = 2000
MAX_FEEDBACK = 100
"""Of feedback on a reply: characters of a label and of a comment, and how many may give it."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one model call, or of several added up, as the provider counts them.

    `input_tokens` leaves out what was read from or written to the provider's cache.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0

    @property
    def total(self) -> int:
        """Every token, input and output, cached or not: what `token_count` reports."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_creation_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_creation_tokens=self.cache_creation_tokens + other.cache_creation_tokens,
        )


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that retrieval found (interface specification, section 2)."""

    index: int
    id: str
    title: str
    url: str
    source_type: str
    score: float
    snippet: str


class ShownMessage(msgspec.Struct, frozen=True):
    """An earlier message of a conversation as a caller sends it; it is not verified."""

    role: Role
    content: str


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A saved assistant message (interface specification, section 2)."""

    id: str
    conversation_id: str
    role: Role = "assistant"
    content: str
    token_count: int
    created_at: str


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One tool run as callers see it: `output` is a string that parses as JSON."""

    name: str
    input: dict[str, Any]
    output: str


class Decider(msgspec.Struct, frozen=True, kw_only=True):
    """Who decided about a tool call, by the credential that was used: a key's id, an operator's name.

    `service`: nobody did; time ran out, or the run ended.
    """

    kind: Literal["account", "operator", "service"]
    id: str


class Elicitation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a tool server asks of a person in the middle of a call: values, or to open a link.

    `requested_schema` (JSON Schema of a flat object) is of the values, in mode `form`; `url` is the link, in
    mode `url`. Source: MCP 2025-11-25 and 2026-07-28, elicitation.
    """

    message: str
    mode: Literal["form", "url"] = "form"
    requested_schema: dict[str, Any] | None = None
    url: str | None = None


ElicitationAction = Literal["accept", "decline", "cancel"]
"""The answer to an elicitation: a person has agreed, has refused, or has not chosen."""


class ApprovalNeeded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call that needs approval, as a caller receives it.

    `tool` is its name as the model saw it. With an `elicitation` it is the tool that asks, in the call. A
    request that is refused because of it receives the id alone.
    """

    id: str
    tool: str | None = None
    input: dict[str, Any] | None = None
    expires_at: str | None = None
    elicitation: Elicitation | None = None


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that a model may be offered.

    `name` is what the model sees; `server` and `tool` say where it is. The hints are MCP's annotations,
    with its defaults.
    """

    name: str
    server: str
    tool: str
    description: str
    input_schema: dict[str, Any]
    read_only: bool = False
    idempotent: bool = False
