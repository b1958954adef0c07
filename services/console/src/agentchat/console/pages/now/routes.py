"""Serve the page Now and its stream."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec
from litestar import get
from litestar.response import Redirect, Stream, Template

from agentchat.console.pages.now.now_board import Board
from agentchat.console.pages.now.open_runs import NowFilter, RunTable
from agentchat.console.services import get_services
from agentchat.console.shared.access_check import AnyRequest, get_admin
from agentchat.console.shared.audit_reads import record_live_read
from agentchat.console.shared.console_roles import Role
from agentchat.console.shared.directory_lists import FilterChoices, list_filter_choices
from agentchat.console.shared.rendering import render_page
from agentchat.console.shared.sse_parts import render_part, stream_parts
from agentchat.contracts.admin_errors import Unavailable
from agentchat.runtime.postgres import DatabaseUnavailable


def _read_filter(request: AnyRequest) -> NowFilter:
    given: Any = request.query_params
    return NowFilter(
        account_id=given.get("account") or None,
        account_ids=get_admin(request).account_ids,
        agent_id=given.get("agent") or None,
    )


async def _load_board(request: AnyRequest) -> Board | None:
    """Load the board; None for people limited to some accounts, since it has the figures of all."""
    return None if get_admin(request).account_ids is not None else await get_services(request).boards.load()


@get("/", role=Role.VIEWER, filtered=True)
async def get_start() -> Redirect:
    """Redirect to the page Now."""
    return Redirect("/now")


@get("/now", role=Role.VIEWER, filtered=True)
async def get_now(request: AnyRequest) -> Template:
    """Show the page, also if a part of the system does not answer."""
    services, chosen = get_services(request), _read_filter(request)
    try:
        await record_live_read(request, msgspec.structs.asdict(chosen))
        table = await services.open_runs.load_table(chosen)
    except Unavailable as error:  # nothing is shown that the audit log cannot record
        table = RunTable(rows=[], total=0, problem=str(error).capitalize())
    try:
        choices = await list_filter_choices(request)
    except (Unavailable, DatabaseUnavailable):  # the page shows what does not answer
        choices = FilterChoices(None, None)
    return render_page(
        request,
        "now.html",
        title="Now",
        table=table,
        board=await _load_board(request),
        chosen=chosen,
        choices=choices,
        query=str(request.url.query),
    )


@get("/now/stream", role=Role.VIEWER, filtered=True)
async def get_now_stream(request: AnyRequest) -> Stream:
    """Stream the table and the board every second."""
    chosen = _read_filter(request)
    await record_live_read(request, msgspec.structs.asdict(chosen))
    return stream_parts(request, _stream_parts(request, chosen))


async def _stream_parts(request: AnyRequest, chosen: NowFilter) -> AsyncGenerator[str, None]:
    services = get_services(request)
    async with aclosing(services.open_runs.watch(chosen)) as tables:
        async for table in tables:
            board = await _load_board(request)
            waiting = await services.badges.count_approvals(chosen.account_ids)
            yield render_part(request, "parts/now.html", table=table, board=board, waiting=waiting)


HANDLERS = (get_start, get_now, get_now_stream)
