"""Hold a conversation with a version of an agent, a new one or a fork from any message."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import urlencode

import msgspec
from litestar import Response, get, post
from litestar.response import Redirect, Stream

from agentchat.administration import admin_accounts, admin_agents, admin_runs
from agentchat.administration.admin_runs import FORM
from agentchat.administration.admin_values import Agent, NewMessage
from agentchat.console.pages.agent_choice import load_choices, read_number, read_text
from agentchat.console.services import get_services
from agentchat.console.shared.access_check import AnyRequest, get_admin
from agentchat.console.shared.audit_reads import record_read
from agentchat.console.shared.console_roles import Role
from agentchat.console.shared.rendering import render_page
from agentchat.console.shared.sse_parts import render_part, stream_parts
from agentchat.console.shared.streamed_run import follow_run
from agentchat.console.shared.template_filters import format_json
from agentchat.contracts.admin_errors import AdminError, Conflict, Invalid, NotFound
from agentchat.contracts.ids import is_uuid
from agentchat.conversations.aggregate.conversation import Conversation, Run
from agentchat.conversations.errors import UnreadableEvent
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.queries.find_by_trace import find_run


class PlaygroundThread(msgspec.Struct, frozen=True, kw_only=True):
    """The thread before the next message: the runs of a conversation, all or up to `fork_at`.

    `again` is the text of the user's message that a fork leaves out; `agent_id` answered it.
    """

    conversation: Conversation | None = None
    runs: tuple[Run, ...] = ()
    fork_at: str = ""
    again: str = ""
    agent_id: str = ""

    @property
    def active(self) -> Run | None:
        """The run under way, if it is part of the thread."""
        return next((run for run in self.runs if run.state == "running"), None)

    @property
    def is_continued(self) -> bool:
        """True if the next message continues this conversation, not a fork of it."""
        own = [run for run in self.runs if not run.inherited]
        return not self.fork_at and bool(own) and all(run.form == FORM for run in own)


@get("/playground", role=Role.OPERATOR, filtered=True)
async def get_playground(
    request: AnyRequest,
    agent: str = "",
    version: int | None = None,
    conversation: str = "",
    fork: str = "",
) -> Response[Any]:
    """Show the playground.

    `fork` has the ids of a conversation and a message, joined by a colon.
    """
    thread = await _load_thread(request, conversation, fork)
    agent = agent or thread.agent_id
    if not agent:
        return render_page(
            request, "playground.html", title="Playground", agent=None, **await load_choices(request)
        )
    if version is None and thread.is_continued and thread.runs[-1].agent_id == agent:
        version = thread.runs[-1].agent_version
    found = await admin_agents.get(get_admin(request), agent, version)
    return await _render_thread(request, found, thread, thread.again)


@post("/playground", status_code=200, role=Role.OPERATOR, filtered=True)
async def post_message(request: AnyRequest) -> Response[Any]:
    """Send a message to a version of the agent and show its run."""
    form = await request.form()
    found = await admin_agents.get(get_admin(request), read_text(form, "agent"), read_number(form, "version"))
    conversation, fork = read_text(form, "conversation"), read_text(form, "fork")
    message = read_text(form, "message")
    try:
        if not message.strip():
            raise Invalid("message", "is blank")
        source, _, at = fork.partition(":") if fork else (conversation, "", "")
        new = NewMessage(
            message=message,
            version=found.version,
            conversation_id=source or None,
            fork_at=at or None,
            context=_read_context(read_text(form, "context")),
        )
        run = await admin_runs.send_message(get_admin(request), found.id, new)
    except AdminError as error:
        thread = await _load_thread(request, conversation, fork)
        context = read_text(form, "context")
        return await _render_thread(request, found, thread, message, context, problem=error)
    return _redirect_to(found.id, found.version, run.conversation_id)


@post("/playground/stop", status_code=200, role=Role.OPERATOR, filtered=True)
async def post_stop(request: AnyRequest) -> Response[Any]:
    """Cancel the run under way; if it has ended meanwhile, just show it."""
    form = await request.form()
    conversation = read_text(form, "conversation")
    with contextlib.suppress(Conflict):
        await admin_runs.cancel(get_admin(request), conversation)
    return _redirect_to(read_text(form, "agent"), read_number(form, "version"), conversation)


@get("/playground/stream", role=Role.OPERATOR, filtered=True)
async def get_stream(request: AnyRequest, trace: str) -> Stream:
    """Stream a run as it proceeds. Raises NotFound."""
    services = get_services(request)
    found = await find_run(services.pool, trace)
    if found is None:
        raise NotFound("run", trace[:40])

    await record_read(request, found.conversation_id, found.account_id)

    async def stream_run() -> AsyncGenerator[str, None]:
        async for live in follow_run(services.bus, services.pool, trace):
            shown = {"live": live, "run": live.run, "conversation_id": found.conversation_id}
            yield render_part(request, "parts/streamed_run.html", **shown)

    return stream_parts(request, stream_run())


def _redirect_to(agent_id: str, version: int | None, conversation: str) -> Redirect:
    asked = {"agent": agent_id, "version": version, "conversation": conversation}
    return Redirect(
        f"/playground?{urlencode({name: value for name, value in asked.items() if value})}#end",
        status_code=303,
    )


async def _load_thread(request: AnyRequest, conversation: str, fork: str) -> PlaygroundThread:
    """Load the thread before the next message. Raises NotFound, Conflict, Invalid."""
    source, _, at = fork.partition(":") if fork else (conversation, "", "")
    if not source:
        return PlaygroundThread()
    if not is_uuid(source.lower()):
        raise NotFound("conversation", source[:40])
    try:
        found = await Log(get_services(request).pool).load_conversation(source.lower())
    except UnreadableEvent as error:
        raise Conflict(f"the conversation cannot be read: {error}") from None
    if found.version == 0:
        raise NotFound("conversation", source)
    if found.erased:
        raise Conflict("the conversation was deleted and cannot be continued")
    if not fork:
        answered_by = found.runs[-1].agent_id if found.runs else ""
        return PlaygroundThread(conversation=found, runs=found.runs, agent_id=answered_by)
    for place, run in enumerate(found.runs):
        if run.user_message_id == at:
            return PlaygroundThread(
                conversation=found,
                runs=found.runs[:place],
                fork_at=at,
                again=run.user_text,
                agent_id=run.agent_id,
            )
        if run.reply is not None and run.reply.id == at:
            before = found.runs[: place + 1]
            return PlaygroundThread(conversation=found, runs=before, fork_at=at, agent_id=run.agent_id)
    raise Invalid("fork", "the conversation has no such message")


async def _render_thread(
    request: AnyRequest,
    agent: Agent,
    thread: PlaygroundThread,
    message: str,
    context: str | None = None,
    *,
    problem: AdminError | None = None,
) -> Response[Any]:
    if thread.conversation is not None:
        await record_read(request, thread.conversation.conversation_id, thread.conversation.account_id)
    account = await admin_accounts.get(get_admin(request), agent.account_id)
    return render_page(
        request,
        "playground.html",
        title="Playground",
        status_code=200 if problem is None else 400,
        agent=agent,
        account=account,
        **await load_choices(request, agent.id),
        thread=thread,
        message=message,
        context=format_json(_build_context(agent, thread)) if context is None else context,
        problem=problem,
    )


def _build_context(agent: Agent, thread: PlaygroundThread) -> dict[str, Any]:
    """Return the context of the thread's last run, or blank values for the agent's variables."""
    last = thread.runs[-1].context if thread.runs else None
    return last or dict.fromkeys(agent.variables, "")


def _read_context(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.DecodeError:
        raise Invalid("context", "must be a JSON object") from None


HANDLERS = (get_playground, post_message, post_stop, get_stream)
