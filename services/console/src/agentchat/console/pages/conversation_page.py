"""One conversation: its thread, a run as a timeline, and a slider over the log."""

import time
from collections.abc import AsyncGenerator
from typing import Any

from litestar import get
from litestar.params import FromPath
from litestar.response import Redirect, Response, Stream, Template

from agentchat.administration import admin_agents
from agentchat.administration.admin_values import Agent
from agentchat.console.console_services import services_of
from agentchat.console.frame.access import AnyRequest
from agentchat.console.frame.acting import admin_of, note_read
from agentchat.console.frame.event_source import rendered, stream
from agentchat.console.frame.failures import problem
from agentchat.console.frame.filters import version
from agentchat.console.frame.rendering import page
from agentchat.console.frame.roles import Role
from agentchat.console.frame.streamed_run import follow_run
from agentchat.console.pages.conversation_view import (
    BarDetail,
    ConversationView,
    ErasedConversation,
    SystemPrompt,
    detail_of,
    event_name,
    kind_of,
    look_at,
)
from agentchat.contracts.admin_errors import NotFound
from agentchat.contracts.ids import is_trace_id, is_uuid
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.event_store.log import Log
from agentchat.conversations.queries.find_run import find_run
from agentchat.conversations.queries.threads import find_thread

_ICONS = {"completed": "done", "failed": "failed", "cancelled": "cancelled", "running": "running"}

_LOOK_SECONDS = 2.0
_NOTES = {"tool_use": "asks for tools", "end_turn": "", "max_tokens": "cut at its limit of tokens"}


def _version(request: AnyRequest, name: str = "at") -> int | None:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


@get("/conversations/{conversation_id:str}", role=Role.VIEWER)
async def get_conversation(request: AnyRequest, conversation_id: FromPath[str]) -> Response[Any] | Template:
    """The page; where htmx asks, what changes with the slider."""
    found = await _look(request, conversation_id)
    if not isinstance(found, ConversationView):
        return found
    detail = await _detail(request, found, request.query_params.get("bar", ""))
    is_part = bool(request.headers.get("hx-request"))
    await note_read(request, found.id, found.account_id)
    return page(
        request,
        "parts/conversation_past.html" if is_part else "conversation.html",
        title=found.title,
        **_shown(request, found, detail),
    )


def _shown(
    request: AnyRequest, found: ConversationView, detail: BarDetail | None, tail: str = ""
) -> dict[str, Any]:
    return {
        "prices": services_of(request).prices,
        "tail": tail,
        "view": found,
        "detail": detail,
        "icons": _ICONS,
        "event_name": event_name,
        "kind_of": kind_of,
        "notes": _NOTES,
    }


async def _look(request: AnyRequest, conversation_id: str) -> ConversationView | Template:
    conversation_id = conversation_id.lower()
    given = request.query_params
    trace_id = str(given.get("run") or given.get("trace") or "").lower() or None
    found = None
    if is_uuid(conversation_id):
        found = await look_at(services_of(request).pool, conversation_id, _version(request), trace_id)
    if isinstance(found, ErasedConversation):
        return problem(
            request,
            410,
            f"This conversation was erased at {found.at} by the request {found.trace_id}. Nobody can read it "
            "any more; what its runs cost is still counted in its account's usage.",
        )
    if found is None:
        return problem(
            request,
            404,
            f"There is no conversation {conversation_id[:40]}. It may be of another stack, or its id was "
            "cut: search for words that were said in it.",
        )
    return found


async def _detail(request: AnyRequest, found: ConversationView, key: str) -> BarDetail | None:
    if not key or found.run is None:
        return None
    return await detail_of(services_of(request).pool, found, key, await _system_prompt(request, found))


async def _system_prompt(request: AnyRequest, found: ConversationView) -> SystemPrompt:
    run = found.run
    assert run is not None
    if run.prompt_override is not None:
        return SystemPrompt(run.prompt_override, "of the request")
    try:
        agent: Agent = await admin_agents.get(admin_of(request), run.agent_id, run.agent_version)
    except NotFound:
        return SystemPrompt(None, "")
    return SystemPrompt(agent.system_prompt, f"of the agent's {version(run.agent_version)}")


@get("/conversations/{conversation_id:str}/stream", role=Role.VIEWER)
async def get_stream(request: AnyRequest, conversation_id: FromPath[str]) -> Stream | Template:
    """A run that goes on, until it has ended."""
    found = await _look(request, conversation_id)
    if not isinstance(found, ConversationView):
        return found
    await note_read(request, found.id, found.account_id)
    return stream(request, _parts(request, found.id))


async def _parts(request: AnyRequest, conversation_id: str) -> AsyncGenerator[str, None]:
    """The page's part at each step of the run and every other second, and its text as it comes."""
    services, given = services_of(request), request.query_params
    trace_id, look_at_time = given.get("run", "").lower(), 0.0
    shown: Run | None = None
    async for live in follow_run(services.bus, services.pool, trace_id):
        if live.run is shown and not live.ended and time.monotonic() < look_at_time:
            yield rendered(request, "parts/conversation_tail.html", text=live.tail)
            continue
        found = await look_at(services.pool, conversation_id, None, trace_id)
        if not isinstance(found, ConversationView):
            return
        shown, look_at_time = live.run, time.monotonic() + _LOOK_SECONDS
        detail = await _detail(request, found, given.get("bar", ""))
        context = _shown(request, found, detail, live.tail)
        yield rendered(request, "parts/conversation_live.html", **context)


@get("/conversations/{conversation_id:str}/events", role=Role.VIEWER)
async def get_events(request: AnyRequest, conversation_id: FromPath[str]) -> Response[Any] | Template:
    """The events of a run as they are stored."""
    found = await _look(request, conversation_id)
    if not isinstance(found, ConversationView):
        return found
    await note_read(request, found.id, found.account_id)
    entries = found.run_entries
    is_part = bool(request.headers.get("hx-request"))
    template = "parts/conversation_events.html" if is_part else "conversation_events.html"
    shown = _shown(request, found, None)
    return page(request, template, title=f"Events of {found.title}", entries=entries, **shown)


@get("/conversations/{conversation_id:str}/events/{version:int}", role=Role.VIEWER)
async def get_event(
    request: AnyRequest, conversation_id: FromPath[str], version: FromPath[int]
) -> Response[bytes] | Template:
    """One event, byte for byte as it is stored."""
    pool, rows = services_of(request).pool, []
    thread = await find_thread(pool, conversation_id) if is_uuid(conversation_id) else None
    if thread is not None and 0 < version <= thread.version:
        await note_read(request, conversation_id, thread.account_id)
        rows = await Log(pool).read_rows(conversation_id, version - 1, version)
    if not rows:
        return problem(request, 404, f"The conversation has no event {version}.")
    return Response(rows[0].state, media_type="application/json", headers={"cache-control": "no-store"})


@get("/conversations/{conversation_id:str}/case", role=Role.VIEWER)
async def get_case(request: AnyRequest, conversation_id: FromPath[str]) -> Response[Any] | Template:
    """A run as a line for a suite's `cases.jsonl`, with what the rules of a new suite redact taken out."""
    from agentchat.evals.collecting import line_for_new_suite  # 2 MiB, for a page that few open
    from agentchat.evals.errors import SuiteError

    found = await _look(request, conversation_id)
    if not isinstance(found, ConversationView):
        return found
    if found.run is None:
        return problem(request, 404, "The conversation has no run yet.")
    await note_read(request, found.id, found.account_id)
    services = services_of(request)
    try:
        line = await line_for_new_suite(
            services.pool, services.bus.rpc, found.run, found.account_id, found.id
        )
    except SuiteError as error:
        return problem(request, 409, f"No case can be made: {error}.")
    name = f'attachment; filename="{found.run.trace_id}.jsonl"'
    headers = {"cache-control": "no-store", "content-disposition": name}
    return Response(line, media_type="application/jsonl", headers=headers)


@get("/traces/{trace_id:str}", role=Role.VIEWER)
async def get_trace(request: AnyRequest, trace_id: FromPath[str]) -> Redirect | Template:
    """The conversation that has a run."""
    trace_id = trace_id.lower()
    found = await find_run(services_of(request).pool, trace_id) if is_trace_id(trace_id) else None
    if found is None:
        return problem(
            request,
            404,
            f"No run has the trace id {trace_id[:40]}. It may not have begun yet, its conversation may "
            "have been erased, or the id is that of a request that began no run.",
        )
    return Redirect(f"/conversations/{found.conversation_id}?run={trace_id}")


HANDLERS = (get_conversation, get_stream, get_events, get_event, get_case, get_trace)
