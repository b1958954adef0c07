"""The body of a chat completion: what decides the run, and what would be wrong to pass over."""

import hashlib
from typing import Any

import msgspec

from contracts import wire
from gateway.chat.shown import Shown
from gateway.http import strict_json
from gateway.http.problem_responses import invalid
from gateway.protocols.openai.completion_messages import Given, texts_of
from gateway.protocols.openai.structured import Wanted, wanted_by

_OF_THE_ANSWER = ("stream", "stream_options", "background")


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


class CompletionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a client shows, and how it wants to be answered.

    `request` is a hash of all fields, but for those that say how.
    """

    model: str
    request: str
    shown: Shown
    streamed: bool
    include_usage: bool
    wanted: Wanted | None


_decoder = msgspec.json.Decoder(ChatCompletion)


def parse(data: bytes, max_message_bytes: int | None) -> CompletionRequest:
    """The body, which `strict_json.check` has let pass; `max_message_bytes` is the plan's own bound.

    Raises Refusal.
    """
    body = strict_json.decoded(_decoder, data)
    _refuse_unfit(body)
    return CompletionRequest(
        model=body.model.replace("\x00", "\ufffd"),
        shown=texts_of(body.messages, "messages").shown("messages", max_message_bytes),
        request=hash_of(data),
        streamed=bool(body.stream),
        include_usage=body.stream_options is not None and bool(body.stream_options.include_usage),
        wanted=wanted_by(body.response_format, "response_format", "json_schema"),
    )


def hash_of(data: bytes) -> str:
    """Of every field, known or not: an SDK sends the same bytes again."""
    fields = sorted(strict_json.object_of(data).items())
    digest = hashlib.sha256()
    for name, raw in fields:
        if name not in _OF_THE_ANSWER:
            digest.update(wire.encode((name, len(raw))) + bytes(raw))
    return digest.hexdigest()


def check_tool_choice(name: str, value: Any) -> None:
    """Raises Refusal: 400."""
    if value not in (None, "auto", "none"):
        raise invalid(name, "An agent chooses among its own tools: this can be auto or none.")


def _refuse_unfit(body: ChatCompletion) -> None:
    """What the caller would miss in the answer."""
    if body.n not in (None, 1):
        raise invalid("n", "An agent gives one answer: n must be 1.")
    if body.logprobs or body.top_logprobs:
        raise invalid("logprobs", "Log probabilities are not available.")
    check_tool_choice("tool_choice", body.tool_choice)
    check_tool_choice("function_call", body.function_call)
    if body.modalities not in (None, (), ("text",)):
        raise invalid("modalities", "An agent answers in text.")
