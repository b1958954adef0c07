"""Represent a request of either protocol: messages, offered tools, results so far."""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import takewhile
from typing import Any, Literal

import msgspec

from agentchat.model_demo.errors import build_invalid_error
from agentchat.model_demo.thinking_blocks import ThinkingPrefix

Schema = dict[str, Any]
Role = Literal["user", "assistant"]

BYTES_A_TOKEN = 4
_FILE_TOKENS = 1600
_LEAST_CACHED = 1024
"""Providers do not cache shorter prefixes (tokens)."""
_SUMMARY_END = "</summary>"
_READ_BY_PROGRAM, _BY_SCHEMA = "Your reply is read by a program:", "that satisfies this JSON Schema:\n"
_OPEN, _CLOSE = "<already_sent>", "</already_sent>"


class TextBlock(msgspec.Struct, frozen=True):
    """A text of a message."""

    text: str


class ToolCallBlock(msgspec.Struct, frozen=True):
    """A tool call of an earlier reply."""

    id: str
    name: str
    input: dict[str, Any]


class ToolResultBlock(msgspec.Struct, frozen=True):
    """The result of a tool call."""

    call_id: str
    text: str
    is_error: bool = False


class FileBlock(msgspec.Struct, frozen=True):
    """An image or a PDF of a message or a tool result, as this model sees it."""

    media_type: str
    size: int


Block = TextBlock | ToolCallBlock | ToolResultBlock | FileBlock


class ChatMessage(msgspec.Struct, frozen=True):
    """A message of the conversation."""

    role: Role
    blocks: list[Block]

    @property
    def text(self) -> str:
        """Return the text blocks, joined by line breaks."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextBlock))

    @property
    def results(self) -> dict[str, ToolResultBlock]:
        """Return the tool results by call id."""
        return {block.call_id: block for block in self.blocks if isinstance(block, ToolResultBlock)}


class Tool(msgspec.Struct, frozen=True):
    """A tool that the request offers."""

    name: str
    input_schema: Schema
    description: str = ""


class ToolChoice(msgspec.Struct, frozen=True):
    """The rule for tool calls in the reply."""

    type: Literal["auto", "any", "tool", "none"] = "auto"
    name: str = ""
    disable_parallel_tool_use: bool = False


class InputUsage(msgspec.Struct, frozen=True):
    """The input tokens of a request."""

    fresh: int
    cache_written: int
    cache_read: int

    @property
    def total(self) -> int:
        """Return all input tokens."""
        return self.fresh + self.cache_written + self.cache_read


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of either protocol.

    `compacts`: it asks for a summary; `caches`: prefixes are cached.
    """

    model: str
    max_tokens: int
    messages: list[ChatMessage]
    system: str = ""
    tools: list[Tool] = []
    tool_choice: ToolChoice = ToolChoice()
    schema: Schema | None = None
    stop_sequences: list[str] = []
    metadata: Schema | None = None
    stream: bool = False
    stream_usage: bool = True
    compacts: bool = False
    caches: bool = False
    thinking: ThinkingPrefix | None = None

    def __post_init__(self) -> None:
        if not any(message.blocks for message in self.messages):
            raise ValueError("at least one message is required")

    @property
    def usage(self) -> InputUsage:
        """Count the input tokens.

        With caching, everything up to the last assistant message counts as read from the cache and the rest
        as written to it. So the numbers look like those of a warm cache, without a memory.
        """
        head = sum(count_tokens(msgspec.json.encode(tool).decode()) for tool in self.tools)
        costs = [sum(map(_count_block_tokens, message.blocks)) for message in self.messages]
        total = head + count_tokens(self.system) + sum(costs)
        answered = [at for at, each in enumerate(self.messages[:-1], 1) if each.role == "assistant"]
        if not self.caches or total < _LEAST_CACHED:
            return InputUsage(total, 0, 0)
        read = total - sum(costs[answered[-1] :]) if answered else 0
        read = read if read >= _LEAST_CACHED else 0
        return InputUsage(0, total - read, read)


class DemoConversation:
    """The conversation of a request.

    `messages` are the turns, with neighbouring messages of one role merged; the last is the user's. `sent` is
    the beginning of the reply that the client already has: an assistant prefill, or a text block of the last
    user message with `<already_sent>...</already_sent>`. A compaction is answered as if the user had asked
    for a summary.
    """

    def __init__(self, request: ModelRequest) -> None:
        asks = [ChatMessage("user", [TextBlock("Summarise this conversation.")])] if request.compacts else []
        given = [*request.messages, *asks]
        messages, self.sent = _split_instruction(given) or _split_prefill(given)
        self.system, schema = _split_schema(request.system)
        self.schema = schema or request.schema
        self.messages = _join_turns(messages)
        self.tools = request.tools
        self.tool_choice = ToolChoice("none") if request.compacts else request.tool_choice
        named = [request.model, self.system, request.metadata, *map(msgspec.structs.astuple, messages)]
        self.key = hashlib.sha256(msgspec.json.encode(named)).digest()
        """The key of the turn, the same for every attempt at it."""

    @cached_property
    def question_at(self) -> int:
        """Return the index of the last user message that is not tool results."""
        asking = [at for at, each in enumerate(self.messages) if each.role == "user" and not each.results]
        return asking[-1] if asking else 0

    @cached_property
    def question(self) -> str:
        """Return the text of the asking message, without summaries."""
        return "\n".join(text for text in self._user_texts if not text.endswith(_SUMMARY_END))

    @cached_property
    def earlier(self) -> list[str]:
        """Return the user's earlier messages, or the summary that replaces them."""
        summaries = [text for text in self._user_texts if text.endswith(_SUMMARY_END)]
        return [*(each.text for each in self.messages[: self.question_at] if each.role == "user"), *summaries]

    @cached_property
    def results(self) -> list[tuple[ToolCallBlock, ToolResultBlock]]:
        """Return the tool calls since the question, oldest first, with their results."""
        since = self.messages[self.question_at + 1 :]
        returned = {call_id: each for message in since for call_id, each in message.results.items()}
        calls = [block for message in since for block in message.blocks if isinstance(block, ToolCallBlock)]
        return [(call, returned[call.id]) for call in calls if call.id in returned]

    @cached_property
    def files(self) -> list[FileBlock]:
        """Return the files of the question and of the results since, oldest first."""
        since = self.messages[self.question_at :]
        return [block for message in since for block in message.blocks if isinstance(block, FileBlock)]

    @property
    def rounds(self) -> int:
        """Return the number of tool rounds since the question."""
        return sum(bool(message.results) for message in self.messages[self.question_at + 1 :])

    @property
    def may_call(self) -> bool:
        """Return True if the reply may call tools."""
        return bool(self.tools) and self.tool_choice.type != "none"

    def make_id(self, *of: object) -> str:
        """Return an id for the reply or a part of it, the same for the same request."""
        digest = hashlib.sha256(self.key + repr(of).encode()).digest()
        return "01" + base64.b32encode(digest).decode()[:22]

    @property
    def _user_texts(self) -> list[str]:
        return [each.text for each in self.messages[self.question_at].blocks if isinstance(each, TextBlock)]


def count_tokens(text: str) -> int:
    """Return a quarter of the UTF-8 bytes, rounded up."""
    return -(-len(text.encode()) // BYTES_A_TOKEN)


@contextmanager
def refuse_invalid() -> Iterator[None]:
    """Answer 400 if the body lacks a field that is read here.

    The other checks of the vendors' APIs are left to their SDKs and servers.
    """
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise build_invalid_error(f"the body is not a request: {error!r}") from None


def _count_block_tokens(block: Block) -> int:
    match block:
        case ToolCallBlock(name=name, input=value):
            return count_tokens(name + msgspec.json.encode(value).decode())
        case TextBlock(text=text) | ToolResultBlock(text=text):
            return count_tokens(text)
        case FileBlock():
            return _FILE_TOKENS


def read_file(media_type: str, data: str) -> FileBlock:
    """Read a file's base64. Raises ValueError."""
    return FileBlock(media_type, len(base64.b64decode(data, validate=True)))


def _join_turns(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    turns: list[ChatMessage] = []
    for message in messages:
        if turns and turns[-1].role == message.role:
            turns[-1] = ChatMessage(message.role, [*turns[-1].blocks, *message.blocks])
        else:
            turns.append(message)
    return turns


def _split_schema(system: str) -> tuple[str, Schema | None]:
    """Split the schema off the end of the system prompt, for requests without a field for it."""
    prompt, _, asked = system.rpartition(_READ_BY_PROGRAM)
    _, marker, schema = asked.partition(_BY_SCHEMA)
    try:
        return (prompt.rstrip(), msgspec.json.decode(schema, type=Schema)) if marker else (system, None)
    except msgspec.DecodeError:
        return system, None


def _split_prefill(messages: list[ChatMessage]) -> tuple[list[ChatMessage], str]:
    last = [*takewhile(lambda message: message.role == "assistant", reversed(messages))]
    return messages[: len(messages) - len(last)], "".join(message.text for message in reversed(last))


def _split_instruction(messages: list[ChatMessage]) -> tuple[list[ChatMessage], str] | None:
    """Split off the instruction; None if there is none, or no question is left without it."""
    blocks = messages[-1].blocks if messages[-1].role == "user" else []
    for block in reversed(blocks):
        text = block.text if isinstance(block, TextBlock) else ""
        start, end = text.find(_OPEN) + len(_OPEN), text.rfind(_CLOSE)
        if not len(_OPEN) <= start <= end:
            continue
        sent = text[start:end]
        others = [other for other in blocks if other is not block]
        kept = [*messages[:-1], *([ChatMessage("user", others)] if others else [])]
        if kept and kept[-1].role == "assistant" and _is_partial(kept[-1], sent):
            kept.pop()
        return (kept, sent) if kept and kept[-1].role == "user" else None
    return None


def _is_partial(message: ChatMessage, sent: str) -> bool:
    """Return True if an assistant message repeats the interrupted text."""
    calls = any(isinstance(block, ToolCallBlock) for block in message.blocks)
    return not calls and sent.strip().startswith(message.text.strip())
