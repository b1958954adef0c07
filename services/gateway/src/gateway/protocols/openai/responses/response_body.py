"""The body of a response: what decides the run, and what would be wrong to pass over."""

from typing import Any

import msgspec

from gateway.chat.run_request import Verdict
from gateway.chat.shown import Shown
from gateway.http import strict_json
from gateway.http.problem_responses import invalid
from gateway.protocols.openai.completion_body import check_tool_choice, hash_of
from gateway.protocols.openai.completion_messages import texts_of
from gateway.protocols.openai.responses.items import (
    InputItem,
    Reference,
    messages_of,
    split_at_reference,
    verdicts_of,
)
from gateway.protocols.openai.structured import Wanted, wanted_by


class NamedConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, by its id."""

    id: str


class TextOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the text is to be."""

    format: dict[str, Any] | None = None


class CreateResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that count. All others, known to OpenAI or not, are passed over."""

    model: str
    input: str | tuple[InputItem, ...]
    instructions: str | None = None
    conversation: str | NamedConversation | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    stream: bool | None = None
    background: bool | None = None
    tool_choice: Any = None
    top_logprobs: int | None = None
    text: TextOptions | None = None
    prompt: Any = None


class ResponseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, or decided, and how it is to be answered.

    `request` is a hash of all fields but those that say how.

    `conversation`, `previous` and `reference` are what it goes on with, at most one of them.
    """

    model: str
    request: str
    shown: Shown | None
    verdicts: tuple[Verdict, ...]
    conversation: str | None
    previous: str | None
    reference: Reference | None
    wanted: Wanted | None
    stored: bool
    streamed: bool
    background: bool


_decoder = msgspec.json.Decoder(CreateResponse)


def parse(data: bytes, max_message_bytes: int | None) -> ResponseRequest:
    """The body, which `strict_json.check` has let pass; `max_message_bytes` is the plan's own bound.

    Raises Refusal.
    """
    body = strict_json.decoded(_decoder, data)
    _refuse_unfit(body)
    verdicts = verdicts_of(body.input)
    named = body.conversation
    goes_on = named is not None or body.previous_response_id is not None
    reference, first, new = split_at_reference(body.input)
    return ResponseRequest(
        model=body.model.replace("\x00", "\ufffd"),
        request=hash_of(data),
        shown=None if verdicts else _shown(body, new, first, max_message_bytes),
        verdicts=verdicts,
        conversation=named.id if isinstance(named, NamedConversation) else named,
        previous=body.previous_response_id,
        reference=None if goes_on else reference,
        wanted=wanted_by(body.text.format if body.text else None, "text.format"),
        stored=body.store is not False,
        streamed=bool(body.stream),
        background=bool(body.background),
    )


def _shown(
    body: CreateResponse, new: str | tuple[InputItem, ...], first: int, max_message_bytes: int | None
) -> Shown:
    texts = texts_of(messages_of(new, first), "input")
    texts.instruct(body.instructions or "")
    shown = texts.shown("input", max_message_bytes)
    goes_on = first or body.conversation is not None or body.previous_response_id is not None
    if goes_on and any(each.role == "assistant" for each in shown.history):
        raise invalid("input", "To go on with a conversation, send only what is new.")
    return shown


def _refuse_unfit(body: CreateResponse) -> None:
    """What the caller would miss in the answer."""
    check_tool_choice("tool_choice", body.tool_choice)
    if body.top_logprobs:
        raise invalid("top_logprobs", "Log probabilities are not available.")
    if body.prompt is not None:
        raise invalid("prompt", "There are no stored prompts here: an agent has its own.")
    if body.conversation is not None and body.previous_response_id is not None:
        raise invalid("previous_response_id", "This cannot stand next to conversation.")
