"""The body of a chat completion: what decides the run, and what would be wrong to pass over."""

import hashlib
import re
from typing import Any

import msgspec

from contracts import wire
from contracts.values import ShownMessage
from conversations.queries.shown_history import Digests, digests_of
from gateway.chat.body import MAX_MESSAGE_BYTES, MAX_PROMPT_BYTES, check_size
from gateway.doors.openai.messages import Given, texts_of
from gateway.http import strict_json
from gateway.http.problems import Refusal, invalid

_PATH = re.compile(r" - at `\$\.?(.*?)`$")
_MISSING = re.compile(r"missing required field `(.*?)`")
_OF_THE_ANSWER = ("stream", "stream_options")


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
    """What a client shows: the conversation, its last message new; and how it wants to be answered.

    `request` is a hash of all fields, but for those that say how.
    """

    model: str
    request: str
    digests: Digests
    instructions: str | None
    messages: tuple[ShownMessage, ...]
    streamed: bool
    include_usage: bool


_decoder = msgspec.json.Decoder(ChatCompletion)


def parse(data: bytes, max_message_bytes: int | None) -> Shown:
    """The body, which `strict_json.check` has let pass; `max_message_bytes` is the plan's own bound.

    Raises Refusal.
    """
    try:
        body = _decoder.decode(data)
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from None
    except msgspec.DecodeError as error:
        raise Refusal("invalid_request", f"The body is not valid JSON: {error}") from None
    _refuse_unfit(body)
    instructions, messages = texts_of(body.messages)
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
        request=_hash_of(data),
        digests=digests_of(messages),
        streamed=bool(body.stream),
        include_usage=body.stream_options is not None and bool(body.stream_options.include_usage),
    )


def _hash_of(data: bytes) -> str:
    """Of every field, known or not: an SDK sends the same bytes again."""
    fields = sorted(strict_json.object_of(data).items())
    digest = hashlib.sha256()
    for name, raw in fields:
        if name not in _OF_THE_ANSWER:
            digest.update(wire.encode((name, len(raw))) + bytes(raw))
    return digest.hexdigest()


def _invalid(error: str) -> Refusal:
    found, missing = _PATH.search(error), _MISSING.search(error)
    place = [each[1] for each in (found, missing) if each and each[1]]
    return invalid(".".join(place) or "body", _PATH.sub("", error) + ".")


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
