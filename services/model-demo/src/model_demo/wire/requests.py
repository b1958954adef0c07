"""The body of `POST /v1/messages`, as types: what a client may send."""

from typing import Any, Literal

import msgspec

Json = Any
CacheControl = dict[str, Json] | None


class TextBlock(msgspec.Struct, tag="text", frozen=True):
    text: str
    cache_control: CacheControl = None


class ImageBlock(msgspec.Struct, tag="image", frozen=True):
    source: dict[str, Json]
    cache_control: CacheControl = None


class DocumentBlock(msgspec.Struct, tag="document", frozen=True):
    source: dict[str, Json]
    title: str | None = None
    cache_control: CacheControl = None


class SearchResultBlock(msgspec.Struct, tag="search_result", frozen=True):
    source: str
    title: str
    content: list[TextBlock]
    cache_control: CacheControl = None


class ThinkingBlock(msgspec.Struct, tag="thinking", frozen=True):
    thinking: str
    signature: str


class RedactedThinkingBlock(msgspec.Struct, tag="redacted_thinking", frozen=True):
    data: str


class ToolUseBlock(msgspec.Struct, tag="tool_use", frozen=True):
    id: str
    name: str
    input: dict[str, Json]
    cache_control: CacheControl = None


class ToolResultBlock(msgspec.Struct, tag="tool_result", frozen=True):
    tool_use_id: str
    content: str | list[TextBlock | ImageBlock | DocumentBlock | SearchResultBlock] = ""
    is_error: bool = False
    cache_control: CacheControl = None


Block = (
    TextBlock
    | ImageBlock
    | DocumentBlock
    | SearchResultBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ToolUseBlock
    | ToolResultBlock
)


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: Literal["user", "assistant"]
    content: str | list[Block]

    def blocks(self) -> list[Block]:
        """The content as blocks: a string is short for one text block."""
        if isinstance(self.content, str):
            return [TextBlock(self.content)] if self.content else []
        return self.content


class Tool(msgspec.Struct, frozen=True):
    """A client tool. Server tools (`type` other than custom) are not offered here."""

    name: str
    input_schema: dict[str, Json]
    description: str = ""
    type: str | None = None
    cache_control: CacheControl = None


class ToolChoice(msgspec.Struct, frozen=True):
    type: Literal["auto", "any", "tool", "none"] = "auto"
    name: str | None = None
    disable_parallel_tool_use: bool = False


class Thinking(msgspec.Struct, frozen=True):
    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: int | None = None
    display: Literal["summarized", "omitted"] | None = None


class OutputFormat(msgspec.Struct, frozen=True):
    type: Literal["json_schema"]
    schema: dict[str, Json]


class OutputConfig(msgspec.Struct, frozen=True):
    effort: str | None = None
    format: OutputFormat | None = None


class CountRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The body of `POST /v1/messages/count_tokens`; unused fields are taken so that they can be sent."""

    model: str
    messages: list[Message]
    system: str | list[TextBlock] = ""
    tools: list[Tool] = msgspec.field(default_factory=list)
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    cache_control: CacheControl = None
    context_management: Json = None
    mcp_servers: Json = None
    speed: Json = None


class MessageRequest(CountRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The body of `POST /v1/messages`."""

    max_tokens: int
    stream: bool = False
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] = msgspec.field(default_factory=list)
    metadata: dict[str, Json] | None = None
    container: Json = None
    diagnostics: Json = None
    inference_geo: Json = None
    service_tier: Json = None

    def schema(self) -> dict[str, Json] | None:
        """The JSON schema that the reply must fit, where the request asks for one."""
        wanted = (self.output_config and self.output_config.format) or self.output_format
        return wanted.schema if wanted else None
