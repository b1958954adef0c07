"""Show one conversation: its thread, a run as a timeline, and a slider over the log."""

import contextlib
import time
from collections.abc import AsyncGenerator
from typing import Any

from litestar import get
from litestar.params import FromPath
from litestar.response import Redirect, Response, Stream, Template

from agentchat.administration import admin_agents
from agentchat.administration.admin_values import Agent
from agentchat.console.pages.conversation_view import (
    BarDetail,
    ConversationView,
    ErasedConversation,
    SystemPrompt,
    get_event_kind,
    load_detail,
    load_view,
)
from agentchat.console.services import get_services
from agentchat.console.shared.access_check import AnyRequest, get_admin
from agentchat.console.shared.audit_reads import record_read
from agentchat.console.shared.console_roles import Role
from agentchat.console.shared.error_pages import render_problem
from agentchat.console.shared.rendering import render_page
from agentchat.console.shared.sse_parts import render_part, stream_parts
from agentchat.console.shared.streamed_run import follow_run
from agentchat.console.shared.template_filters import format_version
from agentchat.contracts.admin_errors import NotFound
from agentchat.contracts.ids import is_trace_id, is_uuid
from agentchat.contracts.ownership import Owner
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.event_store import mapper
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.queries.find_by_trace import find_run
from agentchat.conversations.queries.read_thread import find_thread
from agentchat.files.errors import FilesError

_LOOK_SECONDS = 2.0
_NOTES = {"tool_use": "requests tools", "end_turn": "", "max_tokens": "cut off at its token limit"}


def _read_version(request: AnyRequest, name: str = "at") -> int | None:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


@get("/conversations/{conversation_id:str}", role=Role.VIEWER)
async def get_conversation(request: AnyRequest, conversation_id: FromPath[str]) -> Response[Any] | Template:
    """Show the page; for htmx, the part that changes with the slider."""
    found = await _load_view(request, conversation_id)
    if not isinstance(found, ConversationView):
        return found
    detail = await _load_detail(request, found, request.query_params.get("bar", ""))
    is_part = bool(request.headers.get("hx-request"))
    await record_read(request, found.id, found.account_id)
    return render_page(
        request,
        "parts/conversation_past.html" if is_part else "conversation.html",
        title=found.title,
        **_build_context(request, found, detail),
    )


def _build_context(
    request: AnyRequest, found: ConversationView, detail: BarDetail | None, tail: str = ""
) -> dict[str, Any]:
    prices, bars = get_services(request).prices, found.timeline.bars if found.timeline else ()
    return {
        "prices": prices,
        "priced": any(bar.call is not None and prices.has_price(bar.call.model) for bar in bars),
        "tail": tail,
        "view": found,
        "detail": detail,
        "event_name": mapper.get_event_name,
        "get_event_kind": get_event_kind,
        "notes": _NOTES,
    }


async def _load_view(request: AnyRequest, conversation_id: str) -> ConversationView | Template:
    conversation_id = conversation_id.lower()
    given = request.query_params
    trace_id = str(given.get("run") or given.get("trace") or "").lower() or None
    found = None
    if is_uuid(conversation_id):
        found = await load_view(get_services(request).pool, conversation_id, _read_version(request), trace_id)
    if isinstance(found, ErasedConversation):
        return render_problem(
            request,
            410,
            f"This conversation was erased at {found.at} by request {found.trace_id} and cannot be read. "
            "The usage of its runs is still counted for its account.",
        )
    if found is None:
        return render_problem(
            request,
            404,
            f"There is no conversation {conversation_id[:40]}. It may belong to another deployment, or the "
            "id is incomplete. Search for words that were said in it.",
        )
    return found


async def _load_detail(request: AnyRequest, found: ConversationView, key: str) -> BarDetail | None:
    if not key or found.run is None:
        return None
    return await load_detail(
        get_services(request).pool, found, key, await _load_system_prompt(request, found)
    )


async def _load_system_prompt(request: AnyRequest, found: ConversationView) -> SystemPrompt:
    run = found.run
    assert run is not None
    if run.prompt_override is not None:
        return SystemPrompt(run.prompt_override, "from the request")
    try:
        agent: Agent = await admin_agents.get(get_admin(request), run.agent_id, run.agent_version)
    except NotFound:
        return SystemPrompt(None, "")
    return SystemPrompt(agent.system_prompt, f"from the agent's {format_version(run.agent_version)}")


@get("/conversations/{conversation_id:str}/stream", role=Role.VIEWER)
async def get_stream(request: AnyRequest, conversation_id: FromPath[str]) -> Stream | Template:
    """Stream the parts of the page until the run has ended."""
    found = await _load_view(request, conversation_id)
    if not isinstance(found, ConversationView):
        return found
    await record_read(request, found.id, found.account_id)
    if found.run is None:
        return render_problem(request, 404, "The conversation has no run yet.")
    return stream_parts(request, _stream_parts(request, found.id, found.run.trace_id))


async def _stream_parts(
    request: AnyRequest, conversation_id: str, trace_id: str
) -> AsyncGenerator[str, None]:
    """Yield the page's part at each step and every two seconds, and the text as it streams."""
    services, given = get_services(request), request.query_params
    look_at_time = 0.0
    shown: Run | None = None
    async for live in follow_run(services.bus, services.pool, trace_id):
        if live.run is shown and not live.ended and time.monotonic() < look_at_time:
            yield render_part(request, "parts/conversation_tail.html", text=live.tail)
            continue
        found = await load_view(services.pool, conversation_id, None, trace_id)
        if not isinstance(found, ConversationView):
            return
        shown, look_at_time = live.run, time.monotonic() + _LOOK_SECONDS
        detail = await _load_detail(request, found, given.get("bar", ""))
        context = _build_context(request, found, detail, live.tail)
        yield render_part(request, "parts/conversation_live.html", **context)


@get("/conversations/{conversation_id:str}/events", role=Role.VIEWER)
async def get_events(request: AnyRequest, conversation_id: FromPath[str]) -> Response[Any] | Template:
    """List the events of a run as they are stored."""
    found = await _load_view(request, conversation_id)
    if not isinstance(found, ConversationView):
        return found
    await record_read(request, found.id, found.account_id)
    entries = found.run_entries
    is_part = bool(request.headers.get("hx-request"))
    template = "parts/conversation_events.html" if is_part else "conversation_events.html"
    shown = _build_context(request, found, None)
    return render_page(request, template, title=f"Events of {found.title}", entries=entries, **shown)


@get("/conversations/{conversation_id:str}/events/{version:int}", role=Role.VIEWER)
async def get_event(
    request: AnyRequest, conversation_id: FromPath[str], version: FromPath[int]
) -> Response[bytes] | Template:
    """Return one event, byte for byte as it is stored."""
    pool, rows = get_services(request).pool, []
    thread = await find_thread(pool, conversation_id) if is_uuid(conversation_id) else None
    if thread is not None and 0 < version <= thread.version:
        await record_read(request, conversation_id, thread.account_id)
        rows = await Log(pool).read_rows(conversation_id, version - 1, version)
    if not rows:
        return render_problem(request, 404, f"The conversation has no event {version}.")
    return Response(rows[0].state, media_type="application/json", headers={"cache-control": "no-store"})


@get("/conversations/{conversation_id:str}/files/{file_id:str}", role=Role.VIEWER)
async def get_image(
    request: AnyRequest, conversation_id: FromPath[str], file_id: FromPath[str]
) -> Response[bytes] | Template:
    """Return an image that the conversation's account has, for the thumbnail. Other files are not sent."""
    pool, files = get_services(request).pool, get_services(request).files
    thread = await find_thread(pool, conversation_id) if is_uuid(conversation_id) else None
    if thread is not None and files is not None:
        file = await files.get(Owner(thread.account_id), file_id)
        if file is not None and file.stored.is_image:
            with contextlib.suppress(FilesError):
                content = await files.read(thread.account_id, file.stored.sha256)
                headers = {"cache-control": "no-store"}
                return Response(content, media_type=file.stored.media_type, headers=headers)
    return render_problem(request, 404, "The conversation has no such image.")


@get("/conversations/{conversation_id:str}/case", role=Role.VIEWER)
async def get_case(request: AnyRequest, conversation_id: FromPath[str]) -> Response[Any] | Template:
    """Download a run as a line of `cases.jsonl`, redacted by the rules of a new suite."""
    from agentchat.evals.case_reader import read_case_line  # 2 MiB, for a page that few open
    from agentchat.evals.errors import SuiteError

    found = await _load_view(request, conversation_id)
    if not isinstance(found, ConversationView):
        return found
    if found.run is None:
        return render_problem(request, 404, "The conversation has no run yet.")
    await record_read(request, found.id, found.account_id)
    services = get_services(request)
    try:
        line = await read_case_line(services.pool, services.bus.rpc, found.run, found.account_id, found.id)
    except SuiteError as error:
        return render_problem(request, 409, f"This run cannot become a case: {error}.")
    name = f'attachment; filename="{found.run.trace_id}.jsonl"'
    headers = {"cache-control": "no-store", "content-disposition": name}
    return Response(line, media_type="application/jsonl", headers=headers)


@get("/traces/{trace_id:str}", role=Role.VIEWER)
async def get_trace(request: AnyRequest, trace_id: FromPath[str]) -> Redirect | Template:
    """Redirect to the conversation that has the run."""
    trace_id = trace_id.lower()
    found = await find_run(get_services(request).pool, trace_id) if is_trace_id(trace_id) else None
    if found is None:
        return render_problem(
            request,
            404,
            f"No run has the trace id {trace_id[:40]}. The run may not have started yet, its conversation "
            "may have been erased, or the request started no run.",
        )
    return Redirect(f"/conversations/{found.conversation_id}?run={trace_id}")


HANDLERS = (get_conversation, get_image, get_stream, get_events, get_event, get_case, get_trace)
