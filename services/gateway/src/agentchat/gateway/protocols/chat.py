"""Serve our own chat API (interface specification): POST /v1/chat and /v1/chat/stream.

The reply comes as JSON, or as server-sent events in the form that X-Stream-Form chooses.
"""

import re
from typing import Annotated, Any, Literal

from litestar import Response, post
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg, HeaderParameter
from msgspec.structs import replace

from agentchat.contracts import http, ids, sse_encoder
from agentchat.contracts.events import STARTED_WITH
from agentchat.contracts.examples import CONVERSATION
from agentchat.contracts.messages import RunInput
from agentchat.contracts.run_results import ActionRequired, ChatReply, RunResult, build_chat_reply
from agentchat.contracts.updates import Finished
from agentchat.contracts.values import Form
from agentchat.gateway.access.checks import get_admitted, may_chat
from agentchat.gateway.access.idempotency_header import IdempotencyHeader
from agentchat.gateway.access.stream_form import read_stream_form
from agentchat.gateway.attachments.requested_attachment import read_attachment
from agentchat.gateway.http.problems import Refusal, build_field_refusal, check_size, replace_nul
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.protocols.client_tools import read_client_tools
from agentchat.gateway.protocols.run_options import choose_parameters, read_options
from agentchat.gateway.runs.conversation_labels import check_new_pairs, check_title
from agentchat.gateway.runs.event_stream import EVENTS, EventStream, wait_for_reply
from agentchat.gateway.runs.run_request import RunRequest, ViewKind
from agentchat.gateway.runs.submit_request import StartedRun, submit_request

MAX_MESSAGE_BYTES = 256 * 1024
_RESPOND_ASYNC = "respond-async"
MAX_PROMPT_BYTES = 64 * 1024

FORMS: dict[str, sse_encoder.Form] = {"1": "form1", "2": "form2", "full": "full"}
"""The form of a stream by the value of X-Stream-Form."""

STREAM_EVENTS = (
    *(http.MetaEvent, http.StartEvent, http.SourcesEvent, http.DeltaEvent, http.ToolCallEvent),
    *(http.ToolProgressEvent, http.ToolResultEvent, http.WarningEvent, http.ClientToolCallEvent),
    *(http.ApprovalRequiredEvent, http.ClientToolsRequiredEvent),
    *(http.DoneEvent, http.MessageDoneEvent, http.ErrorEvent),
)
"""The events of all forms."""

AgentId = Annotated[
    str,
    HeaderParameter(name="X-Agent-Id", description="The agent to invoke: one of the account's, by its id."),
]
StreamForm = Annotated[
    Literal["1", "2", "full"] | None,
    HeaderParameter(
        name="X-Stream-Form",
        description="The form of the stream's events: `full` has all of them, 2 is on some plans only; "
        "without it the deployment's.",
    ),
]
Prefer = Annotated[
    str | None,
    HeaderParameter(
        name="Prefer",
        description="`respond-async`: 202 once the message is saved or waits for its turn; Location is the "
        "address of the run (RFC 7240).",
    ),
]
ChatData = Annotated[
    http.ChatBody,
    BodyKwarg(
        description="At most 1 MiB. A field that is not known is refused.",
        examples=[
            Example(summary="A new conversation", value={"message": "Where is my order ORD-1001?"}),
            Example(
                summary="The next message of one",
                value={"message": "And the other one?", "conversation_id": CONVERSATION},
            ),
        ],
    ),
]


@post(
    "/v1/chat",
    status_code=200,
    operation_id="chat",
    summary="Send a message, get the reply as JSON.",
    guards=[may_chat],
)
async def chat(
    request: JsonRequest,
    data: ChatData,
    agent_id: AgentId,  # noqa: ARG001 - read by the guard
    idempotency_key: IdempotencyHeader = None,  # noqa: ARG001
    prefer: Prefer = None,
) -> Response[ChatReply | ActionRequired]:
    """Start a run and return its reply once it is complete; at once with `Prefer: respond-async`.

    If the agent calls a tool of `client_tools`, the answer has the calls instead: run them, and send their
    results to `POST /v1/chat/{trace_id}/tool_results`.
    """
    is_async = _RESPOND_ASYNC in (each.strip().lower() for each in re.split("[,;]", prefer or ""))
    run_request = replace(await build_run_request(request, data, "json"), returns_queued=is_async)
    started = await submit_request(request, run_request)
    claim = started.claim
    if not is_async:
        return Response(await wait_for_answer(request, started))
    accepted: Any = RunResult(
        trace_id=claim.trace_id,
        conversation_id=claim.conversation_id,
        status="queued" if started.run.waiting else "running",
    )
    headers = {"Location": f"/v1/chat/{claim.trace_id}", "Preference-Applied": _RESPOND_ASYNC}
    return Response(accepted, status_code=202, headers=headers)


async def wait_for_answer(request: JsonRequest, started: StartedRun) -> ChatReply | ActionRequired:
    """Return the reply of a run, or the calls that its client has to run. Raises as `wait_for_reply`."""
    last, _ = await wait_for_reply(request, started.run)
    conversation_id, trace_id = started.claim.conversation_id, started.claim.trace_id
    if isinstance(last, Finished):
        return build_chat_reply(conversation_id, last)
    return ActionRequired(
        conversation_id=conversation_id, trace_id=trace_id, client_tool_calls=last.client_calls
    )


@post(
    "/v1/chat/stream",
    status_code=200,
    media_type="text/event-stream",
    operation_id="streamChat",
    summary="Send a message, get the reply as server-sent events.",
    responses=EVENTS,
    guards=[may_chat],
    opt={"streams": True},
)
async def stream_chat(
    request: JsonRequest,
    data: ChatData,
    agent_id: AgentId,  # noqa: ARG001 - read by the guard
    stream_form: StreamForm = None,  # noqa: ARG001
    idempotency_key: IdempotencyHeader = None,  # noqa: ARG001
) -> EventStream:
    """Start a run and stream its reply.

    The form `full` has start, sources (if retrieval ran), warning, delta, tool_call, tool_result,
    approval_required, done (with the message, tool calls, sources and usage), error. Form 1 has meta,
    sources, delta, done, error. Form 2 has start, delta, tool_call, done (with the saved message and the
    calls' outputs), error. The message is saved when the response begins. The contents of the `delta` events,
    joined, are the reply; the last event is one `done` or one `error`, or with `full` one
    `approval_required`.
    """
    form = FORMS[read_stream_form(request)]
    started = await submit_request(request, await build_run_request(request, data, form))
    encoder = sse_encoder.Encoder(form, started.claim.conversation_id, started.claim.trace_id)
    return EventStream(started.run, lambda: encoder.encode(started.run.take()))


async def build_run_request(request: JsonRequest, body: http.ChatBody, form: Form) -> RunRequest:
    """Build what the body asks of the agent in the headers.

    Raises:
        Refusal: 400, 413, 404.
        DatabaseUnavailable
    """
    message, copied = replace_nul(body.message), {name: _clean(getattr(body, name)) for name in _COPIED}
    if not message.strip() and not body.attachments:
        raise build_field_refusal("message", "The message is blank.")
    check_size("message", message, get_max_message_bytes(request))
    copied["instructions"] = copied["instructions"] or None
    for name in ("prompt", "instructions"):
        check_size(name, copied[name] or "", MAX_PROMPT_BYTES)
    conversation_id = None if body.conversation_id is None else body.conversation_id.lower()
    if conversation_id is not None and not ids.is_uuid(conversation_id):
        raise Refusal("conversation_not_found")
    agent_id = get_admitted(request).agent_id
    labels = [name for name in _LABELS if getattr(body, name) is not None]
    if conversation_id is not None and labels:
        hint = "Only a new conversation takes this. Change it by PATCH /v1/conversations/{id}."
        raise build_field_refusal(labels[0], hint)
    return RunRequest(
        form=form,
        agent_id=agent_id,
        message=message,
        view=ViewKind(
            streaming=form != "json",
            outputs=form == "full",
            calls_at_end=form != "form1",
            reasoning=form == "full",
        ),
        conversation_id=conversation_id,
        parameters=await choose_parameters(request, agent_id, body.parameters),
        title=None if body.title is None else check_title(body.title),
        metadata=check_new_pairs(body.metadata or {}),
        on_busy=body.on_busy,
        attachments=tuple(
            read_attachment(f"attachments[{index}]", file_id=each.file_id, url=each.url)
            for index, each in enumerate(body.attachments)
        ),
        **copied,
        **read_options(body),
        **read_client_tools(body.client_tools, body.tool_choice),
    )


def _clean(value: Any) -> Any:
    return replace_nul(value) if isinstance(value, str) else value


_FIELDS = tuple(name for name in http.ChatBody.__struct_fields__ if name in RunInput.__struct_fields__)
_READ = {"message", "parameters", "title", "metadata", "context", "client_tools", "tool_choice"}
_COPIED = tuple(name for name in _FIELDS if name not in _READ)
_LABELS = tuple(name for name in _FIELDS if name in STARTED_WITH)
"""A body's fields for the run; of those, what needs no reading, and what only a new conversation takes."""


def get_max_message_bytes(request: JsonRequest) -> int:
    """Return the bound of a message: ours, or the plan's if that is smaller."""
    return min(MAX_MESSAGE_BYTES, request.auth.plan.max_message_bytes or MAX_MESSAGE_BYTES)
