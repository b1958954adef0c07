"""POST /ag-ui/v1/agents/{agent}: the thread is sent, a run is told event by event."""

from functools import partial
from typing import Any

from litestar import Request, post

from conversations.queries import shown_history
from gateway.chat import resume_run, shown
from gateway.chat.run_request import RunRequest, RunRequester
from gateway.chat.start import ChatEndpoint, start
from gateway.gateway_services import Parts
from gateway.http import strict_json
from gateway.http.exchange import Exchange, of
from gateway.openapi.described import described
from gateway.protocols.ag_ui import ag_ui_body
from gateway.protocols.ag_ui.ag_ui_events import AgUiEvents
from gateway.protocols.ag_ui.ag_ui_openapi import BODY, CONTENT, EXAMPLES, TAG
from gateway.protocols.agent_address import CONVERSATION_ID, SECURITY, AgentName, agent_of, key_and_agent_of
from gateway.runs.event_stream import EventStream


class AgUiRunRequest(RunRequest, frozen=True, kw_only=True):
    """What is asked, and what its client calls it."""

    thread_id: str
    run_id: str
    is_1_0: bool


@described(
    *("agent_not_found", "unsupported_media_type", "message_too_large", "idempotency_conflict"),
    *resume_run.REFUSALS,
    body=BODY,
)
async def _read(parts: Parts, exchange: Exchange, requester: RunRequester, agent: str) -> AgUiRunRequest:
    """Under the thread's id its conversation is the one whose texts are those shown. One `runId` is one run.

    What is resumed is the run that waits, whatever is shown.

    Raises Refusal, ClientGone, DatabaseUnavailable.
    """
    account_id, limit = requester.caller.account_id, requester.caller.plan.max_message_bytes
    agent_id = await agent_of(parts, requester, agent)
    given = await strict_json.read_json(exchange, partial(ag_ui_body.parse, max_message_bytes=limit))
    if given.shown is None:
        return AgUiRunRequest(
            form=requester.form,
            agent_id=agent_id,
            streamed=True,
            verdicts=given.verdicts,
            decides_all=True,
            thread_id=given.thread_id,
            run_id=given.run_id,
            is_1_0=given.is_1_0,
        )
    hash_of = partial(shown_history.hash_of, account_id, agent_id, given.thread_id)
    requested = AgUiRunRequest(
        form=requester.form,
        agent_id=agent_id,
        message=given.shown.message,
        streamed=True,
        outputs=True,
        history=given.shown.history,
        instructions=given.shown.instructions,
        shown_sha256=hash_of(given.shown.digests.messages),
        key=f"\nag-ui\n{given.thread_id}\n{given.run_id}",  # no key of a header has a line break
        thread_id=given.thread_id,
        run_id=given.run_id,
        is_1_0=given.is_1_0,
    )
    return await shown.found(parts.pool, requested, given.shown, account_id, given.thread_id, hash_of)


def _endpoint(agent: str) -> ChatEndpoint[AgUiRunRequest]:
    return ChatEndpoint(
        credentials=partial(key_and_agent_of, agent),
        form=lambda *_: "ag_ui",
        read=partial(_read, agent=agent),
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
    security=SECURITY,
    tags=[TAG["name"]],
)
@described(content=CONTENT, headers=CONVERSATION_ID, examples=EXAMPLES, stages=_endpoint("").stages)
async def run_agent(request: Request[Any, Any, Any], agent: AgentName) -> EventStream:
    """The events as they come."""
    started = await start(request, _endpoint(agent))
    requested, claim, run = started.requested, started.claim, started.run
    of(request.scope).headers.append((b"x-conversation-id", claim.conversation_id.encode()))
    events = AgUiEvents(
        requested.thread_id, requested.run_id, claim.trace_id, claim.conversation_id, is_1_0=requested.is_1_0
    )
    return EventStream(run, lambda: events.encode(run.take()))
