"""POST /ag-ui/v1/agents/{agent}: the thread is sent, the events of a run come."""

from functools import partial

from litestar import post

from contracts import wire
from conversations.queries import shown_history
from gateway.chat import client_history, resume_run
from gateway.chat.admitted_request import AdmittedRequest, within_run_limits
from gateway.chat.client_history import check_name
from gateway.chat.launch_run import RUN_REFUSALS
from gateway.chat.run_request import RunRequest
from gateway.chat.start import start
from gateway.openapi.described import described
from gateway.openapi.openapi_schemas import ref
from gateway.protocols.ag_ui.ag_ui_body import (
    RunAgentInput,
    RunData,
    check_run_id,
    history_of,
    verdicts_of,
)
from gateway.protocols.ag_ui.ag_ui_events import EXAMPLE, FAILED, AgUiEvents
from gateway.protocols.ag_ui.wire import EVENTS
from gateway.protocols.agent_address import CONVERSATION_ID, SECURITY, check_agent, has_key
from gateway.runs.event_stream import EventStream

TYPES: tuple[type, ...] = EVENTS
TAG = {"name": "ag-ui", "description": "Agents for clients of AG-UI."}
_EVENT = {
    "type": "string",
    "contentMediaType": "application/json",
    "contentSchema": {"oneOf": [ref(kind) for kind in EVENTS]},
}
CONTENT = {"text/event-stream": {"type": "object", "required": ["data"], "properties": {"data": _EVENT}}}
EXAMPLES = {
    "text": b"".join(map(wire.encode_sse, EXAMPLE)).decode(),
    "failed": b"".join(map(wire.encode_sse, FAILED)).decode(),
}


async def _run_request(request: AdmittedRequest, body: RunAgentInput) -> RunRequest:
    """Under the thread's id its conversation is the one whose texts are those shown. One `runId` is one run.

    What is resumed is the run that waits, whatever is shown. Raises Refusal, DatabaseUnavailable.
    """
    account_id, limit = request.auth.account_id, request.auth.plan.max_message_bytes
    check_run_id(body.run_id)
    thread_id = check_name("threadId", body.thread_id)
    given = None if body.resume else await request.in_turn(partial(history_of, body, limit))
    verdicts = verdicts_of(body)
    asked = partial(RunRequest, form="ag_ui", agent_id=request.agent_id, streamed=True)
    if given is None:
        return asked(verdicts=verdicts, decides_all=True)
    hash_of = partial(shown_history.hash_of, account_id, request.agent_id, thread_id)
    requested = asked(
        message=given.message,
        outputs=True,
        history=given.history,
        instructions=given.instructions,
        shown_sha256=hash_of(given.digests.messages),
        key=f"\nag-ui\n{thread_id}\n{body.run_id}",  # no key of a header has a line break
    )
    return await client_history.find_conversation(
        request.services.pool, requested, given, account_id, thread_id, hash_of
    )


@post(
    "/ag-ui/v1/agents/{agent:str}",
    status_code=200,
    media_type="text/event-stream",
    operation_id="runAgent",
    summary="Send a thread, get its next messages as AG-UI's events.",
    description="For AG-UI's HttpAgent. See docs/integrate/ag-ui.md for what is ignored and what is refused.",
    response_description="The message is saved, and these are the events of the run. The last is "
    "`RUN_FINISHED` or `RUN_ERROR`.",
    request_class=AdmittedRequest,
    guards=[has_key, within_run_limits],
    before_request=check_agent,
    security=SECURITY,
    tags=[TAG["name"]],
)
@described(
    *RUN_REFUSALS,
    *resume_run.REFUSALS,
    content=CONTENT,
    headers=CONVERSATION_ID,
    examples=EXAMPLES,
)
async def run_agent(request: AdmittedRequest, data: RunData) -> EventStream:
    """The events as they come."""
    started = await start(request, await _run_request(request, data))
    claim, run = started.claim, started.run
    request.exchange.headers.append((b"x-conversation-id", claim.conversation_id.encode()))
    thread_id, is_1_0 = check_name("threadId", data.thread_id), data.protocol_version is not None
    events = AgUiEvents(thread_id, data.run_id, claim.trace_id, claim.conversation_id, is_1_0=is_1_0)
    return EventStream(run, lambda: events.encode(run.take()))
