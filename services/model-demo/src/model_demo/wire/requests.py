"""The body of `POST /v1/messages`, as types: what a client may send. OpenAI's wire is read into the same."""

import base64
import hashlib
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

Json = Any
Schema = dict[str, Json]
NonBlank = Annotated[str, Meta(pattern=r"\S")]
Share = Annotated[float, Meta(ge=0, le=1)]
NotNegative = Annotated[int, Meta(ge=0)]


class _Cacheable(msgspec.Struct, frozen=True, kw_only=True):
    cache_control: Schema | None = None


class TextBlock(_Cacheable, tag="text", frozen=True):
    text: str


class ThinkingBlock(_Cacheable, tag="thinking", frozen=True):
    thinking: str
    signature: str


class RedactedThinkingBlock(_Cacheable, tag="redacted_thinking", frozen=True):
    data: str


class ToolUseBlock(_Cacheable, tag="tool_use", frozen=True):
    id: str
    name: str
    input: dict[str, Json]


class ToolResultBlock(_Cacheable, tag="tool_result", frozen=True):
    tool_use_id: str
    content: str | list[TextBlock] = ""
    is_error: bool = False

    def texts(self) -> list[str]:
        return [self.content] if isinstance(self.content, str) else [block.text for block in self.content]


class CompactionBlock(_Cacheable, tag="compaction", frozen=True):
    """A summary that this server made, in the place of all that stood before. Without content it is none."""

    content: str | None = None
    encrypted_content: str | None = None
    signature: str | None = None


def signed(content: str) -> CompactionBlock:
    """The summary, as it is to come back."""
    raw = content.encode()
    return CompactionBlock(content, base64.b64encode(raw).decode(), hashlib.sha256(raw).hexdigest())


Block = TextBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ToolResultBlock | CompactionBlock


class InputMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: Literal["user", "assistant"]
    content: str | list[Block]

    def blocks(self) -> list[Block]:
        """The content as blocks: a string is short for one text block."""
        if isinstance(self.content, str):
            return [TextBlock(self.content)] if self.content else []
        return self.content


class ClientTool(_Cacheable, frozen=True):
    """A client tool. Server tools (`type` other than custom) are not offered here."""

    name: Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,128}$")]
    input_schema: Schema
    description: str = ""
    type: str | None = None


class ToolChoice(msgspec.Struct, frozen=True):
    type: Literal["auto", "any", "tool", "none"] = "auto"
    name: str | None = None
    disable_parallel_tool_use: bool = False


class Thinking(msgspec.Struct, frozen=True):
    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: Annotated[int, Meta(ge=1024)] | None = None
    display: Literal["summarized", "omitted"] | None = None


class Compacting(msgspec.Struct, frozen=True):
    """The conversation is to be summarised, and not gone on with."""

    type: Literal["summarize"]
    instructions: str | None = None


class OutputFormat(msgspec.Struct, frozen=True):
    type: Literal["json_schema"]
    schema: Schema


class OutputSettings(msgspec.Struct, frozen=True):
    effort: str | None = None
    format: OutputFormat | None = None


WITHOUT_EFFECT = {"container", "context_management", "diagnostics", "inference_geo", "service_tier", "speed"}


class MessageRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The complete body but for WITHOUT_EFFECT."""

    model: str
    max_tokens: NotNegative
    messages: Annotated[list[InputMessage], Meta(min_length=1, max_length=100_000)]
    system: str | list[TextBlock] = ""
    stream: bool = False
    tools: list[ClientTool] = []
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    compaction: Compacting | None = None
    output_config: OutputSettings | None = None
    cache_control: Schema | None = None
    stop_sequences: list[NonBlank] = []
    metadata: Schema | None = None
    temperature: Share | None = None
    top_p: Share | None = None
    top_k: NotNegative | None = None

    def system_blocks(self) -> list[TextBlock]:
        return [TextBlock(self.system)] if isinstance(self.system, str) else self.system

    @property
    def schema(self) -> Schema | None:
        """The JSON schema that the reply must fit, where the request asks for one."""
        return self.output_config.format.schema if self.output_config and self.output_config.format else None


class Asked(NamedTuple):
    """A checked request. `stream_usage`: whether a stream is to report its usage."""

    request: MessageRequest
    stream_usage: bool = True


class Turn(NamedTuple):
    """Neighbouring messages of one role, as the model reads them; `first` is the index of the first one's."""

    first: int
    role: str
    blocks: list[Block]


def turns_of(messages: list[InputMessage]) -> list[Turn]:
    """The messages with neighbours of one role joined."""
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        if turns and turns[-1].role == message.role:
            turns[-1].blocks.extend(message.blocks())
        else:
            turns.append(Turn(index, message.role, [*message.blocks()]))
    return turns
