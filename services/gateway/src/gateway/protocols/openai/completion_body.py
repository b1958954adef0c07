"""The body of a chat completion: what decides the run, and what would be wrong to pass over."""

import hashlib
from typing import Annotated, Any

import msgspec
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg
from msgspec import Meta

from contracts import wire
from contracts.examples import AGENT
from gateway.http import strict_json
from gateway.http.problem_responses import invalid
from gateway.protocols.openai.completion_messages import OpenAiMessage
from gateway.protocols.openai.structured import NESTED

_OF_THE_ANSWER = ("stream", "stream_options", "background")
NULL = {"type": "null"}
PASSED_OVER = "As OpenAI's. Fields that are not named here are passed over."


def one_of(*values: object) -> Meta:
    """In OpenAPI: one of these, or null. What else comes is refused by `check_fit`, in words of its own."""
    return Meta(extra_json_schema={"enum": [*values, None]})


ModelName = Annotated[str, Meta(description="The agent's id, or a name that it alone has.")]
ToolChoice = Annotated[Any, one_of("auto", "none")]


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`include_usage`: one more chunk has the tokens."""

    include_usage: bool | None = None


class ChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a chat completion: the fields that count."""

    model: ModelName
    messages: Annotated[
        tuple[OpenAiMessage, ...],
        Meta(
            description="The conversation; the last message is the user's. Texts only.",
            extra_json_schema={"minItems": 1},
        ),
    ]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int | None, one_of(1)] = None
    logprobs: Annotated[bool | None, Meta(extra_json_schema={"anyOf": [{"const": False}, NULL]})] = None
    top_logprobs: Annotated[int | None, one_of(0)] = None
    tool_choice: ToolChoice = None
    function_call: ToolChoice = None
    modalities: Annotated[
        tuple[str, ...] | None, Meta(extra_json_schema={"maxItems": 1, "items": {"enum": ["text"]}})
    ] = None
    response_format: Annotated[dict[str, Any] | None, Meta(extra_json_schema=NESTED)] = None


CompletionData = Annotated[
    ChatCompletion,
    BodyKwarg(
        description=PASSED_OVER,
        examples=[
            Example(
                id="question",
                summary="A question",
                value={
                    "model": AGENT,
                    "messages": [{"role": "user", "content": "Where is my order ORD-1001?"}],
                },
            )
        ],
    ),
]


def check_fit(body: ChatCompletion) -> None:
    """Raises Refusal: 400 for what the caller would miss in the answer."""
    if body.n not in (None, 1):
        raise invalid("n", "An agent gives one answer: n must be 1.")
    if body.logprobs or body.top_logprobs:
        raise invalid("logprobs", "Log probabilities are not available.")
    check_tool_choice("tool_choice", body.tool_choice)
    check_tool_choice("function_call", body.function_call)
    if body.modalities not in (None, (), ("text",)):
        raise invalid("modalities", "An agent answers in text.")


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
