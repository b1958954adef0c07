"""The body of `POST /v1/messages`, as far as it is read. OpenAI's wire is read into the same.

What the vendors' APIs check beyond that is not checked here: their SDKs and their servers do.
"""

import base64
import hashlib
from typing import Any, Literal, NamedTuple

import msgspec

from model_demo.wire.errors import invalid

Json = Any
Schema = dict[str, Json]


class _Cacheable(msgspec.Struct, frozen=True, kw_only=True):
    cache_control: Schema | None = None


class TextBlock(_Cacheable, tag="text", frozen=True):
    text: str


class ThinkingBlock(_Cacheable, tag="thinking", frozen=True):
    """Taken and not looked at."""


class RedactedThinkingBlock(_Cacheable, tag="redacted_thinking", frozen=True):
    """Taken and not looked at."""


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
    """A summary that this server made, in the place of all that stood before."""

    content: str | None = None
    encrypted_content: str | None = None
    signature: str | None = None


def signed(content: str) -> CompactionBlock:
    """Return the summary as it is sent, and comes back."""
    raw = content.encode()
    return CompactionBlock(content, base64.b64encode(raw).decode(), hashlib.sha256(raw).hexdigest())


Block = TextBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ToolResultBlock | CompactionBlock


class InputMessage(msgspec.Struct, frozen=True):
    role: Literal["user", "assistant"]
    content: str | list[Block]

    def blocks(self) -> list[Block]:
        """Return the content as blocks: a string is short for one text block."""
        if isinstance(self.content, str):
            return [TextBlock(self.content)] if self.content else []
        return self.content


class ClientTool(_Cacheable, frozen=True):
    name: str
    input_schema: Schema
    description: str = ""


class ToolChoice(msgspec.Struct, frozen=True):
    type: Literal["auto", "any", "tool", "none"] = "auto"
    name: str | None = None
    disable_parallel_tool_use: bool = False


class Compacting(msgspec.Struct, frozen=True):
    """The conversation is to be summarised, and not gone on with."""

    type: Literal["summarize"]


class OutputFormat(msgspec.Struct, frozen=True):
    type: Literal["json_schema"]
    schema: Schema


class OutputSettings(msgspec.Struct, frozen=True):
    format: OutputFormat | None = None


class MessageRequest(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    max_tokens: int
    messages: list[InputMessage]
    system: str | list[TextBlock] = ""
    stream: bool = False
    tools: list[ClientTool] = []
    tool_choice: ToolChoice | None = None
    compaction: Compacting | None = None
    output_config: OutputSettings | None = None
    cache_control: Schema | None = None
    stop_sequences: list[str] = []
    metadata: Schema | None = None

    def system_blocks(self) -> list[TextBlock]:
        return [TextBlock(self.system)] if isinstance(self.system, str) else self.system

    @property
    def schema(self) -> Schema | None:
        """The JSON schema that the reply must fit, if the request has one."""
        return self.output_config.format.schema if self.output_config and self.output_config.format else None


class Asked(NamedTuple):
    """A request, and whether a stream is to report its usage."""

    request: MessageRequest
    stream_usage: bool = True


def checked(request: MessageRequest) -> MessageRequest:
    """Raises DemoApiError 400 if there is nothing to answer."""
    if not any(message.content for message in request.messages):
        raise invalid("messages: at least one message is required")
    return request


def decode(raw: bytes, kind: type[msgspec.Struct]) -> Any:
    """Decode a body as `kind`. Raises DemoApiError 400."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid(str(error)) from None


class Turn(NamedTuple):
    """Neighbouring messages of one role, as the model reads them."""

    role: str
    blocks: list[Block]


def turns_of(messages: list[InputMessage]) -> list[Turn]:
    """Join neighbouring messages of one role."""
    turns: list[Turn] = []
    for message in messages:
        if turns and turns[-1].role == message.role:
            turns[-1].blocks.extend(message.blocks())
        else:
            turns.append(Turn(message.role, [*message.blocks()]))
    return turns
