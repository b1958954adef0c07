"""The messages of a chat completion as texts, with what tools of the client's did.

Calls of tools that ran elsewhere, and what these returned, are sent to the model as text: it needs to know
of them, and cannot call those tools itself.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from contracts import wire
from gateway.chat.client_history import Texts
from gateway.http.problem_responses import invalid

_INSTRUCTING = ("system", "developer")
_OF_TOOLS = ("tool", "function")


class OpenAiPart(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a message's content."""

    type: str
    text: str | None = None
    refusal: str | None = None


class OpenAiFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that an assistant elsewhere called. `arguments` are JSON as text; `input` is a custom tool's."""

    name: str = ""
    arguments: Any = None
    input: Any = None


class OpenAiToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One of an assistant's `tool_calls`."""

    id: str = ""
    function: OpenAiFunction | None = None
    custom: OpenAiFunction | None = None


class OpenAiMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as clients send it."""

    role: Annotated[
        str,
        msgspec.Meta(
            extra_json_schema={"enum": ["system", "developer", "user", "assistant", "tool", "function"]}
        ),
    ]
    content: str | tuple[OpenAiPart, ...] | None = None
    name: str | None = None
    tool_calls: tuple[OpenAiToolCall, ...] | None = None
    function_call: OpenAiFunction | None = None
    tool_call_id: str | None = None


def texts_of(given: Sequence[OpenAiMessage], field: str) -> Texts:
    """The instructions and the messages, the user's new one last. Raises Refusal: 400, of `field`."""
    _check_last(given, field)
    read = _Reading()
    for index, message in enumerate(given):
        read.add(message, f"{field}[{index}]")
    return read.texts


def _check_last(given: Sequence[OpenAiMessage], field: str) -> None:
    messages = [index for index, message in enumerate(given) if message.role not in _INSTRUCTING]
    if not messages or given[messages[-1]].role not in ("user", *_OF_TOOLS):
        raise invalid(field, "The last message must be the user's.")
    if given[messages[-1]].role in _OF_TOOLS:
        wrong = "The last message must be the user's: agents run their own tools, and wait for nobody else's."
        raise invalid(f"{field}[{messages[-1]}].role", wrong)


class _Reading:
    def __init__(self) -> None:
        self.texts = Texts()
        self._called: dict[str, str] = {}  # the names of tools, by the ids of their calls

    def add(self, message: OpenAiMessage, place: str) -> None:
        text = _text_of(message, place)
        match message.role:
            case "system" | "developer":
                self.texts.instruct(text)
            case "user":
                self.texts.say(text)
            case "assistant":
                self.texts.answer("\n".join(filter(None, (text, *self._calls(message)))))
            case "tool" | "function":
                name = self._called.get(message.tool_call_id or "") or message.name or "?"
                self.texts.say(f"[Tool result {name}: {text}]")
            case _:
                known = "This must be system, developer, user, assistant or tool."
                raise invalid(f"{place}.role", known)

    def _calls(self, message: OpenAiMessage) -> list[str]:
        calls = list(message.tool_calls or ())
        if message.function_call is not None:
            calls.append(OpenAiToolCall(function=message.function_call))
        texts = []
        for call in calls:
            called = call.function or call.custom or OpenAiFunction()
            self._called[call.id] = called.name
            given = called.arguments if called.input is None else called.input
            text = given if isinstance(given, str) else wire.encode(given).decode()
            texts.append(f"[Tool call {called.name}: {text}]")
        return texts


def _text_of(message: OpenAiMessage, place: str) -> str:
    if not isinstance(message.content, tuple):
        return message.content or ""
    texts = []
    for part in message.content:
        if part.type not in ("text", "refusal"):
            raise invalid(f"{place}.content", f"Only text can be read here, not {part.type[:40]}.")
        texts.append((part.text if part.type == "text" else part.refusal) or "")
    return "\n".join(texts)
