"""Answer a chat of `useChat`: POST /ai-sdk/v1/agents/{agent}/chat."""

from functools import partial
from itertools import takewhile
from typing import Annotated, Any

import msgspec
from litestar import post
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg
from msgspec import Meta
from msgspec.structs import replace

from agentchat.contracts import wire
from agentchat.contracts.http import RunOptions, RunParameters
from agentchat.contracts.ids import find_request_id
from agentchat.contracts.ownership import build_scope
from agentchat.contracts.values import ClientToolResult
from agentchat.conversations.queries import find_by_history
from agentchat.gateway.access.checks import AgentName, get_admitted, may_chat_with_agent
from agentchat.gateway.access.on_busy_header import OnBusyHeader
from agentchat.gateway.attachments.requested_attachment import build_attachment_refusal, read_attachment
from agentchat.gateway.http.problems import build_field_refusal
from agentchat.gateway.http.request_context import MAX_FILES_BODY_BYTES, JsonRequest
from agentchat.gateway.protocols.ai_sdk.ui_message_chunks import AiSdkChunks
from agentchat.gateway.protocols.chat import MAX_MESSAGE_BYTES, get_max_message_bytes
from agentchat.gateway.protocols.client_history import (
    MAX_NAME,
    ClientHistory,
    MessageBuilder,
    check_name,
    place_in_conversation,
)
from agentchat.gateway.protocols.client_tools import read_declared_tools
from agentchat.gateway.protocols.run_options import choose_parameters, read_options
from agentchat.gateway.runs.event_stream import EVENTS, EventStream
from agentchat.gateway.runs.resume_paused_run import submit_or_resume
from agentchat.gateway.runs.return_results import check_no_run_waits
from agentchat.gateway.runs.run_request import Reason, RunRequest, Verdict, ViewKind, build_verdict

Inputs = dict[str, dict[str, Any]]

_TRIGGERS = ("submit-message", "regenerate-message")


class GivenApproval(msgspec.Struct, frozen=True, kw_only=True):
    """A person's answer to the request for approval of a tool call."""

    id: str = ""
    approved: bool | None = None
    reason: Reason = None


class AiSdkPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A piece of a message. Only types `text` and `file` are for the model."""

    type: str
    text: str = ""
    media_type: str | None = None
    filename: str | None = None
    url: str | None = None
    state: str | None = None
    approval: GivenApproval | None = None
    tool_call_id: str = ""
    output: Any = None
    error_text: str | None = None

    def read_verdict(self, inputs: Inputs) -> Verdict | None:
        """Read the decision about a tool call that is new in this request."""
        given = self.approval
        if self.state != "approval-responded" or given is None or given.approved is None:
            return None
        found = inputs.get(given.id)
        return build_verdict(given.id, approved=given.approved, given=found, reason=given.reason)

    def read_tool_result(self) -> ClientToolResult | None:
        """Read the result of a tool of the application."""
        if find_request_id(self.tool_call_id) is None or self.state not in (
            "output-available",
            "output-error",
        ):
            return None
        is_error = self.state == "output-error"
        output = wire.encode(self.error_text if is_error else self.output).decode()
        return ClientToolResult(id=self.tool_call_id, output=output, is_error=is_error)


class UiTool(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A tool that the application runs."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] | None = None


class UiMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the client keeps it."""

    role: Annotated[str, Meta(extra_json_schema={"enum": ["system", "user", "assistant"]})]
    parts: tuple[AiSdkPart, ...]


class UiChat(RunOptions, frozen=True, kw_only=True, rename="camel"):
    """A chat: the fields that count. All others are the application's own, and passed over."""

    messages: Annotated[
        tuple[UiMessage, ...],
        Meta(
            description="The chat; the last message is the user's, or the agent's with what a "
            "person says of its tool calls.",
            extra_json_schema={"minItems": 1},
        ),
    ]
    id: Annotated[
        str | None,
        Meta(
            description="The chat's. Without it each request is a conversation of its own.",
            extra_json_schema={"minLength": 1, "maxLength": MAX_NAME},
        ),
    ] = None
    trigger: Annotated[str | None, Meta(extra_json_schema={"enum": [*_TRIGGERS, None]})] = None
    approval_inputs: Annotated[
        Inputs | None,
        Meta(description="By the ids of approvals: what their tools ask for, or are run with."),
    ] = None
    parameters: RunParameters | None = None
    client_tools: Annotated[
        tuple[UiTool, ...], Meta(description="Tools that the application runs, by `onToolCall`.")
    ] = ()


ChatData = Annotated[
    UiChat,
    BodyKwarg(
        description="As `useChat` sends it. Fields that are not named here are passed over.",
        examples=[
            Example(
                summary="A question",
                value={
                    "id": "chat-7",
                    "trigger": "submit-message",
                    "messages": [
                        {
                            "id": "m1",
                            "role": "user",
                            "parts": [{"type": "text", "text": "Where is my order ORD-1001?"}],
                        }
                    ],
                },
            )
        ],
    ),
]


def read_chat_name(body: UiChat) -> str | None:
    """Return the client's name for the chat, if it has one. Raises Refusal: 400, also for the trigger."""
    if body.trigger not in (None, *_TRIGGERS):
        raise build_field_refusal("trigger", "This must be submit-message or regenerate-message.")
    return None if body.id is None else check_name("id", body.id)


def read_history(body: UiChat, max_bytes: int = MAX_MESSAGE_BYTES) -> ClientHistory:
    """Read what the client shows; `max_bytes` bounds a message. Raises Refusal: 400, 413."""
    texts = MessageBuilder()
    for index, message in enumerate(body.messages):
        _read(message, f"messages[{index}]", texts)
    return texts.build_history("messages", max_bytes)


def read_verdicts(body: UiChat) -> tuple[Verdict, ...]:
    """Read the decisions in the last message."""
    if not body.messages or body.messages[-1].role != "assistant":
        return ()
    inputs, parts = body.approval_inputs or {}, body.messages[-1].parts
    return tuple(verdict for part in parts if (verdict := part.read_verdict(inputs)) is not None)


def read_tool_results(body: UiChat) -> tuple[ClientToolResult, ...]:
    """Read the results of the application's tools in the last message."""
    if not body.messages or body.messages[-1].role != "assistant":
        return ()
    parts = body.messages[-1].parts
    return tuple(result for part in parts if (result := part.read_tool_result()) is not None)


def _read_late_results(body: UiChat) -> tuple[ClientToolResult, ...]:
    """Read the results at the end of the message before the user's new one."""
    *_, before = body.messages[:-1] or (body.messages[-1],)
    parts = () if before.role != "assistant" else before.parts
    last = takewhile(lambda part: part.type != "text", reversed(parts))
    return tuple(result for part in last if (result := part.read_tool_result()) is not None)


def _read_tools(body: UiChat) -> dict[str, Any]:
    declared = ((each.name, each.description, each.input_schema) for each in body.client_tools)
    return read_declared_tools(declared, "clientTools")


def _read(message: UiMessage, place: str, texts: MessageBuilder) -> None:
    """Add a message's text. Results of tools are left out: the conversation has them."""
    files = [
        read_attachment(
            f"{place}.parts[{index}]", url=part.url, media_type=part.media_type, name=part.filename
        )
        for index, part in enumerate(message.parts)
        if part.type == "file"
    ]
    if files and message.role != "user":
        raise build_attachment_refusal(files[0].path, "Only messages of the user may have files.")
    said = [part.text for part in message.parts if part.type == "text"]
    match message.role:
        case "system":
            texts.add_system("\n".join(said))
        case "user":
            texts.add_user("\n".join(said), files)
        case "assistant":
            texts.add_assistant("".join(said))
        case _:
            raise build_field_refusal(f"{place}.role", "This must be system, user or assistant.")


async def _run_request(request: JsonRequest, body: UiChat) -> RunRequest:
    """Build the request for a run.

    The chat's id names a conversation only together with the texts that are shown; without an id the
    conversation is new. Decisions in the last message continue the run that waits, whatever else is shown.

    Raises Refusal, DatabaseUnavailable.
    """
    scope, agent_id = build_scope(request.auth), get_admitted(request).agent_id
    name, verdicts = read_chat_name(body), read_verdicts(body)
    run_request = RunRequest(form="ai_sdk", agent_id=agent_id, view=ViewKind(outputs=True, reasoning=True))
    if verdicts:
        return replace(run_request, verdicts=verdicts)
    if results := read_tool_results(body):
        return replace(run_request, tool_results=results)
    shown = read_history(body, get_max_message_bytes(request))
    await check_no_run_waits(request, _read_late_results(body), "messages")
    parameters = await choose_parameters(request, agent_id, body.parameters)
    run_request = replace(run_request, parameters=parameters, **read_options(body), **_read_tools(body))
    if name is None:
        return await place_in_conversation(request, replace(run_request, unlisted=True), shown, None, None)
    hash_of = partial(find_by_history.hash_named, scope, agent_id, name)
    return await place_in_conversation(request, run_request, shown, name, hash_of)


def add_stream_headers(request: JsonRequest, conversation_id: str) -> None:
    """Add the headers that `useChat` expects."""
    request.context.add_header("x-vercel-ai-ui-message-stream", "v1")
    request.context.conversation_id = conversation_id


@post(
    "/ai-sdk/v1/agents/{agent:str}/chat",
    status_code=200,
    media_type="text/event-stream",
    request_max_body_size=MAX_FILES_BODY_BYTES,
    operation_id="chatWithUi",
    summary="Send a chat, get its next message as a UI message stream.",
    responses=EVENTS,
    guards=[may_chat_with_agent],
)
async def chat_with_ui(
    request: JsonRequest,
    agent: AgentName,  # noqa: ARG001 - read by the guard
    data: ChatData,
    on_busy: OnBusyHeader = None,  # noqa: ARG001 - read by `submit_request`
) -> EventStream:
    """Stream the reply for `useChat`; the last chunk is `[DONE]`, after `finish` or `error`.

    The message is saved when the response begins. See docs/integrate/ai-sdk.md for what is ignored and
    refused.
    """
    started = await submit_or_resume(request, await _run_request(request, data))
    claim, run = started.claim, started.run
    add_stream_headers(request, claim.conversation_id)
    chunks = AiSdkChunks(claim.trace_id, claim.conversation_id, started.after_pause)
    return EventStream(run, lambda: chunks.encode(run.take()))
