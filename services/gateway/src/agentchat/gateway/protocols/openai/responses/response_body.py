"""Read the body of a request for a response, and refuse fields that must not be ignored."""

from typing import Annotated, Any

import msgspec
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg
from msgspec import Meta

from agentchat.contracts import http
from agentchat.contracts.examples import AGENT
from agentchat.gateway.http.problems import build_field_refusal
from agentchat.gateway.protocols.client_history import ClientHistory
from agentchat.gateway.protocols.openai.completion_body import NULL, PASSED_OVER, OpenAiRequest, read_messages
from agentchat.gateway.protocols.openai.responses.input_items import InputItem, as_messages
from agentchat.gateway.protocols.openai.structured_output import TextFormat


class NamedConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, by its id."""

    id: str


class TextOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The wanted format of the text."""

    format: TextFormat | None = None


class ReasoningOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The reasoning options of a request."""

    effort: http.ReasoningEffort | None = None


FIELDS = {"max_tokens": "max_output_tokens", "reasoning_effort": "reasoning.effort"}
"""The names that the body has for parameters of the model's calls."""


class CreateResponse(OpenAiRequest, frozen=True, kw_only=True):
    """A request for a response."""

    input: Annotated[
        str | Annotated[tuple[InputItem, ...], Meta(extra_json_schema={"minItems": 1})],
        Meta(
            description="The user's message, or items of which the last is that, or what a person says of a "
            "tool call.",
        ),
    ]
    instructions: str | None = None
    conversation: str | NamedConversation | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    background: bool | None = None
    text: TextOptions | None = None
    prompt: Annotated[Any, Meta(extra_json_schema=NULL)] = None
    max_output_tokens: http.MaxTokens | None = None
    reasoning: ReasoningOptions | None = None

    def read_parameters(self) -> http.RunParameters:
        """Return the parameters for the model's calls."""
        return http.RunParameters(
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=self.max_output_tokens,
            reasoning_effort=None if self.reasoning is None else self.reasoning.effort,
            parallel_tool_calls=self.parallel_tool_calls,
        )


ResponseData = Annotated[
    CreateResponse,
    BodyKwarg(
        description=PASSED_OVER,
        examples=[
            Example(
                summary="A question",
                value={"model": AGENT, "input": "Where is my order ORD-1001?"},
            )
        ],
    ),
]


def read_history(
    body: CreateResponse,
    new: str | tuple[InputItem, ...],
    first: int,
    max_message_bytes: int,
    function: str | None,
    *,
    keeps_client_calls: bool,
) -> ClientHistory:
    """Read what the client shows: the items `new`, which begin in the body at place `first`.

    `keeps_client_calls`: As in `read_messages`.

    Raises Refusal: 400, 413.
    """
    messages = read_messages(
        as_messages(new, first), "input", function, keeps_client_calls=keeps_client_calls
    )
    messages.add_system(body.instructions or "")
    shown = messages.build_history("input", max_message_bytes)
    goes_on = first or body.conversation is not None or body.previous_response_id is not None
    if goes_on and any(each.role == "assistant" for each in shown.history):
        raise build_field_refusal("input", "To go on with a conversation, send only what is new.")
    return shown


def check_fit(body: CreateResponse) -> None:
    """Refuse what the caller would miss in the answer. Raises Refusal: 400."""
    if body.top_logprobs:
        raise build_field_refusal("top_logprobs", "Log probabilities are not available.")
    if body.prompt is not None:
        raise build_field_refusal("prompt", "There are no stored prompts here: an agent has its own.")
    if body.conversation is not None and body.previous_response_id is not None:
        raise build_field_refusal(
            "previous_response_id", "Send either `conversation` or `previous_response_id`."
        )
