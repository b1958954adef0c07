"""The body of a chat completion: what decides the run, and what would be wrong to pass over."""

import re
from typing import Any

import msgspec

from contracts.values import Role, ShownMessage
from gateway.body import MAX_MESSAGE_BYTES, MAX_PROMPT_BYTES, check_size
from gateway.problems import Refusal, invalid

_PATH = re.compile(r" - at `\$\.?(.*?)`$")
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}
_INSTRUCTING = ("system", "developer")
_OF_TOOLS = ("tool", "function")


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a message's content."""

    type: str
    text: str | None = None
    refusal: str | None = None


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """A message as clients send it. Calls of tools that they had elsewhere are passed over."""

    role: str
    content: str | tuple[Part, ...] | None = None


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`include_usage`: one more chunk tells the tokens."""

    include_usage: bool | None = None


class ChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that count. All others, known to OpenAI or not, are passed over."""

    model: str
    messages: tuple[Given, ...]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tool_choice: Any = None
    function_call: Any = None
    modalities: tuple[str, ...] | None = None
    response_format: dict[str, Any] | None = None


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What a client shows: the conversation, its last message new; and how it wants to be answered."""

    model: str
    instructions: str | None
    messages: tuple[ShownMessage, ...]
    streamed: bool
    include_usage: bool


_decoder = msgspec.json.Decoder(ChatCompletion)


def parse(data: bytes, max_message_bytes: int | None) -> Shown:
    """The body, which `strict.check` has let pass; `max_message_bytes` is the plan's own bound.

    Raises Refusal.
    """
    try:
        body = _decoder.decode(data)
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from None
    except msgspec.DecodeError as error:
        raise Refusal("invalid_request", f"The body is not valid JSON: {error}") from None
    _refuse_unfit(body)
    instructions, messages = _texts_of(body.messages)
    if not messages or messages[-1].role != "user":
        raise invalid("messages", "The last message must be the user's.")
    if not messages[-1].content.strip():
        raise invalid("messages", "The last message is blank.")
    limit = min(MAX_MESSAGE_BYTES, max_message_bytes or MAX_MESSAGE_BYTES)
    for each in messages:
        check_size("messages", each.content, limit if each.role == "user" else MAX_MESSAGE_BYTES)
    check_size("messages", instructions, MAX_PROMPT_BYTES)
    return Shown(
        model=body.model.replace("\x00", "\ufffd"),
        instructions=instructions or None,
        messages=messages,
        streamed=bool(body.stream),
        include_usage=body.stream_options is not None and bool(body.stream_options.include_usage),
    )


def _invalid(error: str) -> Refusal:
    found = _PATH.search(error)
    return invalid(found[1] or "body" if found else "body", _PATH.sub("", error) + ".")


def _refuse_unfit(body: ChatCompletion) -> None:
    """What the caller would miss in the answer."""
    if body.n not in (None, 1):
        raise invalid("n", "An agent gives one answer: n must be 1.")
    if body.logprobs or body.top_logprobs:
        raise invalid("logprobs", "Log probabilities are not available.")
    for name, value in (("tool_choice", body.tool_choice), ("function_call", body.function_call)):
        if value not in (None, "auto", "none"):
            raise invalid(name, "An agent chooses among its own tools: this can be auto or none.")
    if body.modalities not in (None, (), ("text",)):
        raise invalid("modalities", "An agent answers in text.")
    if body.response_format is not None and body.response_format.get("type") != "text":
        raise invalid("response_format", "What an agent answers in is its own output type.")


def _texts_of(given: tuple[Given, ...]) -> tuple[str, tuple[ShownMessage, ...]]:
    """The instructions, and what was said; texts of the assistant that follow each other are joined."""
    instructions: list[str] = []
    said: list[tuple[Role, list[str]]] = []
    for index, message in enumerate(given):
        text = _text_of(message, f"messages[{index}]")
        role = _ROLES.get(message.role)
        if message.role in _INSTRUCTING:
            instructions.append(text)
        elif role == "assistant" and said and said[-1][0] == "assistant":
            said[-1][1].append(text)
        elif role is not None and (text or role == "user"):
            said.append((role, [text]))
        elif role is None and message.role not in _OF_TOOLS:
            raise invalid(f"messages[{index}].role", "This must be system, developer, user or assistant.")
    shown = tuple(ShownMessage(role, "".join(texts)) for role, texts in said)
    return "\n\n".join(filter(None, instructions)), shown


def _text_of(message: Given, place: str) -> str:
    if message.role in _OF_TOOLS:
        return ""
    if not isinstance(message.content, tuple):
        return (message.content or "").replace("\x00", "\ufffd")
    texts = []
    for part in message.content:
        if part.type not in ("text", "refusal"):
            raise invalid(f"{place}.content", f"Only text can be read here, not {part.type[:40]}.")
        texts.append((part.text if part.type == "text" else part.refusal) or "")
    return "\n".join(texts).replace("\x00", "\ufffd")
