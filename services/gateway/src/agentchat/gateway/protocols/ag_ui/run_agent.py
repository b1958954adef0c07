"""Run an agent for AG-UI: POST /ag-ui/v1/agents/{agent}, with AG-UI's RunAgentInput."""

from collections.abc import Sequence
from functools import partial
from itertools import takewhile
from typing import Annotated, Any, Literal

import msgspec
from litestar import post
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg
from msgspec import Meta
from msgspec.structs import replace

from agentchat.contracts.approval_bodies import DecisionBody
from agentchat.contracts.http import RunOptions, RunParameters
from agentchat.contracts.ids import find_request_id
from agentchat.contracts.ownership import build_scope
from agentchat.contracts.values import ClientToolResult
from agentchat.conversations.queries import find_by_history
from agentchat.gateway.access.checks import AgentName, get_admitted, may_chat_with_agent
from agentchat.gateway.access.on_busy_header import OnBusyHeader
from agentchat.gateway.attachments.requested_attachment import (
    RequestedAttachment,
    build_attachment_refusal,
    read_attachment,
)
from agentchat.gateway.http.problems import build_field_refusal
from agentchat.gateway.http.request_context import MAX_FILES_BODY_BYTES, JsonRequest
from agentchat.gateway.protocols.ag_ui.ag_ui_events import AgUiEvents
from agentchat.gateway.protocols.chat import MAX_MESSAGE_BYTES, get_max_message_bytes
from agentchat.gateway.protocols.client_history import (
    MAX_NAME,
    ClientHistory,
    MessageBuilder,
    check_name,
    place_in_conversation,
)
from agentchat.gateway.protocols.client_tools import encode_output, read_declared_tools
from agentchat.gateway.protocols.run_options import NESTED, choose_parameters, read_options
from agentchat.gateway.runs.event_stream import EVENTS, EventStream
from agentchat.gateway.runs.resume_paused_run import submit_or_resume
from agentchat.gateway.runs.return_results import check_no_run_waits
from agentchat.gateway.runs.run_request import RunRequest, Verdict, ViewKind, build_verdict

_NAME = Meta(extra_json_schema={"minLength": 1, "maxLength": MAX_NAME})
_ROLES = ["system", "developer", "user", "assistant", "tool", "activity", "reasoning"]


class AgUiSource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The place of a file: `data`, with base64 as its value, or `url`."""

    type: str
    value: str
    mime_type: str | None = None


class AgUiPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A piece of a message's content. After `metadata` come the fields of `binary`, of AG-UI before 1.0."""

    type: str
    text: str = ""
    source: AgUiSource | None = None
    metadata: Any = None
    mime_type: str | None = None
    id: str | None = None
    url: str | None = None
    data: str | None = None
    filename: str | None = None

    def read_file(self, path: str) -> RequestedAttachment:
        """Read a part that is no text. Raises Refusal: 400."""
        if self.type == "binary":
            return read_attachment(
                path,
                file_id=self.id,
                url=self.url,
                data=self.data,
                media_type=self.mime_type,
                name=self.filename,
            )
        if self.type not in ("image", "document") or self.source is None:
            raise build_attachment_refusal(path, f"Files of type {self.type[:40]} are not supported here.")
        source, metadata = self.source, self.metadata if isinstance(self.metadata, dict) else {}
        return read_attachment(
            path,
            url=source.value if source.type == "url" else None,
            data=source.value if source.type == "data" else None,
            media_type=source.mime_type,
            name=str(metadata.get("filename") or ""),
            is_image=self.type == "image",
        )


class AgUiMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A message as the client keeps it. The content of an activity is an object, which nobody reads."""

    role: Annotated[str, Meta(extra_json_schema={"enum": _ROLES})]
    content: str | tuple[AgUiPart, ...] | dict[str, msgspec.Raw] | None = None
    tool_call_id: str = ""
    error: str | None = None


class AgUiContext(msgspec.Struct, frozen=True, kw_only=True):
    """Context that the application gives the agent."""

    description: str
    value: str


class AgUiTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the application runs. `parameters` is the JSON Schema of its input."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None


class InterruptAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A person's decision about a tool call, or, with an `input`, the answer to its tool's question."""

    approved: bool
    edited_args: Annotated[
        dict[str, Any] | None, Meta(description="Replaces the agent's arguments completely.")
    ] = None
    input: Annotated[dict[str, Any] | None, Meta(description="What a tool has asked for.")] = None
    reason: Annotated[str | None, Meta(description="Of a refusal, for the agent.")] = None


class ResumeEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An interrupt of the thread that is answered: `resolved`, with a payload, or `cancelled`."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: InterruptAnswer | None = None


class ForwardedProps(RunOptions, frozen=True, kw_only=True):
    """The fields that count of what the application sends beside the thread."""

    parameters: RunParameters | None = None


_FIELDS = {name: f"forwardedProps.{field}" for name, field in NESTED.items()}


class RunAgentInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A run of a thread: the fields that count."""

    thread_id: Annotated[str, Meta(description="Your own name for the conversation."), _NAME]
    run_id: Annotated[str, Meta(description="As an Idempotency-Key: one run for one id."), _NAME]
    messages: Annotated[
        tuple[AgUiMessage, ...],
        Meta(
            description="The thread; last the user's message, or results of tools.",
            extra_json_schema={"minItems": 1},
        ),
    ]
    tools: tuple[AgUiTool, ...] = ()
    context: tuple[AgUiContext, ...] = ()
    forwarded_props: ForwardedProps | None = None
    protocol_version: str | None = None
    resume: Annotated[
        tuple[ResumeEntry, ...] | None,
        Meta(description="Answers to all that the thread waits for; then no new message."),
    ] = None


RunData = Annotated[
    RunAgentInput,
    BodyKwarg(
        description="AG-UI's RunAgentInput. Fields that are not named here are passed over.",
        examples=[
            Example(
                summary="A question",
                value={
                    "threadId": "thread-7",
                    "runId": "run-1",
                    "messages": [{"id": "m1", "role": "user", "content": "Where is order ORD-1001?"}],
                    "tools": [],
                    "context": [],
                    "state": {},
                    "forwardedProps": {},
                },
            )
        ],
    ),
]


def check_run_id(run_id: str) -> None:
    """Check the run's id. Raises Refusal: 400."""
    if not run_id.strip() or len(run_id) > MAX_NAME:
        raise build_field_refusal("runId", f"This has 1 to {MAX_NAME} characters, and not only blanks.")


def read_history(body: RunAgentInput, max_bytes: int = MAX_MESSAGE_BYTES) -> ClientHistory:
    """Read what the client shows; `max_bytes` bounds a message. Raises Refusal: 400, 413."""
    texts = MessageBuilder()
    for index, message in enumerate(body.messages):
        _read(message, f"messages[{index}]", texts)
    for each in body.context:
        texts.add_system(f"{each.description}: {each.value}")
    return texts.build_history("messages", max_bytes)


def read_verdicts(body: RunAgentInput) -> tuple[Verdict, ...]:
    """Read the decisions about the calls that the thread waits for. Raises Refusal: 400."""
    if body.resume and body.messages and body.messages[-1].role == "user":
        raise build_field_refusal("resume", "First answer what the thread waits for, in a run of its own.")
    return tuple(_read_verdict(entry, f"resume[{index}]") for index, entry in enumerate(body.resume or ()))


def read_tool_results(messages: Sequence[AgUiMessage]) -> tuple[ClientToolResult, ...]:
    """Read the results of the application's tools at the end of the thread. Raises Refusal: 400."""
    last = list(takewhile(lambda message: message.role == "tool", reversed(messages)))
    return tuple(
        ClientToolResult(
            id=message.tool_call_id,
            output=encode_output(message.error or _read_content(message, "messages")[0]),
            is_error=bool(message.error),
        )
        for message in reversed(last)
        if find_request_id(message.tool_call_id) is not None
    )


def _read_tools(body: RunAgentInput) -> dict[str, Any]:
    return read_declared_tools(
        ((each.name, each.description, each.parameters) for each in body.tools), "tools"
    )


def _read_verdict(entry: ResumeEntry, place: str) -> Verdict:
    """Read one decision. A cancelled interrupt denies the call."""
    if entry.status == "cancelled":
        return Verdict(
            approval_id=entry.interrupt_id, body=DecisionBody(decision="denied"), is_dismissal=True
        )
    if entry.payload is None:
        raise build_field_refusal(
            f"{place}.payload", "What is resolved has a payload: approved is true or false."
        )
    answer = entry.payload
    given = answer.input if answer.edited_args is None else answer.edited_args
    return build_verdict(entry.interrupt_id, approved=answer.approved, given=given, reason=answer.reason)


def _read(message: AgUiMessage, place: str, texts: MessageBuilder) -> None:
    """Add a message's text. Results of tools are left out: the conversation has them."""
    match message.role:
        case "system" | "developer":
            texts.add_system(_read_content(message, place)[0])
        case "user":
            texts.add_user(*_read_content(message, place, takes_files=True))
        case "assistant":
            texts.add_assistant(_read_content(message, place)[0])
        case "tool":
            texts.add_assistant("")
        case "activity" | "reasoning":
            pass
        case _:
            raise build_field_refusal(f"{place}.role", "This is no role of AG-UI.")


def _read_content(
    message: AgUiMessage, place: str, *, takes_files: bool = False
) -> tuple[str, list[RequestedAttachment]]:
    match message.content:
        case None:
            return "", []
        case str() as text:
            return text, []
        case tuple() as parts:
            places = {f"{place}.content[{index}]": part for index, part in enumerate(parts)}
            others = {path: part for path, part in places.items() if part.type != "text"}
            for path, part in others.items() if not takes_files else ():
                raise build_attachment_refusal(path, f"No {part.type[:40]} can be read but of the user.")
            texts = "\n".join(part.text for part in parts if part.type == "text")
            return texts, [part.read_file(path) for path, part in others.items()]
        case _:
            raise build_field_refusal(f"{place}.content", "This must be a text or a list of parts.")


async def _run_request(request: JsonRequest, body: RunAgentInput) -> RunRequest:
    """Build the request for a run.

    The thread's id names a conversation only together with the texts that are shown. One `runId` is one run.
    A resume continues the run that waits, whatever is shown.

    Raises Refusal, DatabaseUnavailable.
    """
    scope, agent_id = build_scope(request.auth), get_admitted(request).agent_id
    check_run_id(body.run_id)
    thread_id = check_name("threadId", body.thread_id)
    verdicts = read_verdicts(body)
    run_request = RunRequest(form="ag_ui", agent_id=agent_id, view=ViewKind(outputs=True, reasoning=True))
    if body.resume:
        return replace(run_request, verdicts=verdicts, decides_all=True)
    if results := read_tool_results(body.messages):
        return replace(run_request, tool_results=results)
    shown = read_history(body, get_max_message_bytes(request))
    await check_no_run_waits(request, read_tool_results(body.messages[:-1]), "messages")
    hash_of = partial(find_by_history.hash_shown, scope, agent_id, thread_id)
    key = f"\nag-ui\n{thread_id}\n{body.run_id}"  # no key of a header has a line break
    props = body.forwarded_props or ForwardedProps()
    parameters = await choose_parameters(request, agent_id, props.parameters, _FIELDS)
    options = read_options(props, "forwardedProps.")
    run_request = replace(run_request, key=key, parameters=parameters, **options, **_read_tools(body))
    return await place_in_conversation(request, run_request, shown, thread_id, hash_of)


@post(
    "/ag-ui/v1/agents/{agent:str}",
    status_code=200,
    media_type="text/event-stream",
    request_max_body_size=MAX_FILES_BODY_BYTES,
    operation_id="runAgent",
    summary="Send a thread, get its next messages as AG-UI's events.",
    responses=EVENTS,
    guards=[may_chat_with_agent],
)
async def run_agent(
    request: JsonRequest,
    agent: AgentName,  # noqa: ARG001 - read by the guard
    data: RunData,
    on_busy: OnBusyHeader = None,  # noqa: ARG001 - read by `submit_request`
) -> EventStream:
    """Stream the run for AG-UI's HttpAgent; the last event is `RUN_FINISHED` or `RUN_ERROR`.

    The message is saved when the response begins. See docs/integrate/ag-ui.md for what is ignored and
    refused.
    """
    started = await submit_or_resume(request, await _run_request(request, data))
    claim, run = started.claim, started.run
    thread_id, is_1_0 = check_name("threadId", data.thread_id), data.protocol_version is not None
    events = AgUiEvents(thread_id, data.run_id, claim.trace_id, claim.conversation_id, is_1_0=is_1_0)
    return EventStream(run, lambda: events.encode(run.take()))
