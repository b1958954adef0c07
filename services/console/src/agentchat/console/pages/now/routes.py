"""The addresses of Now."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec
from litestar import get
from litestar.response import Redirect, Stream, Template

from agentchat.console.console_services import services_of
from agentchat.console.frame.access import AnyRequest
from agentchat.console.frame.acting import note_live
from agentchat.console.frame.directory import FilterChoices, filter_choices
from agentchat.console.frame.event_source import rendered, stream
from agentchat.console.frame.rendering import page
from agentchat.console.frame.roles import Role
from agentchat.console.pages.now.open_runs import NowFilter, RunTable
from agentchat.contracts.admin_errors import Unavailable


def _chosen(request: AnyRequest) -> NowFilter:
    given: Any = request.query_params
    return NowFilter(account_id=given.get("account") or None, agent_id=given.get("agent") or None)


@get("/", role=Role.VIEWER)
async def get_start() -> Redirect:
    return Redirect("/now")


@get("/now", role=Role.VIEWER)
async def get_now(request: AnyRequest) -> Template:
    services, chosen = services_of(request), _chosen(request)
    try:
        await note_live(request, msgspec.structs.asdict(chosen))
        table = await services.open_runs.table(chosen)
    except Unavailable as error:  # nobody reads what the audit log cannot say
        table = RunTable(rows=[], total=0, problem=str(error).capitalize())
    try:
        choices = await filter_choices(request)
    except Unavailable:  # what is away is said on the page
        choices = FilterChoices(None, None)
    return page(
        request,
        "now.html",
        title="Now",
        table=table,
        board=await services.boards.board(),
        chosen=chosen,
        choices=choices,
        query=str(request.url.query),
    )


@get("/now/stream", role=Role.VIEWER)
async def get_now_stream(request: AnyRequest) -> Stream:
    """The table and the board, every second."""
    chosen = _chosen(request)
    await note_live(request, msgspec.structs.asdict(chosen))
    return stream(request, _parts(request, chosen))


async def _parts(request: AnyRequest, chosen: NowFilter) -> AsyncGenerator[str, None]:
    services = services_of(request)
    async with aclosing(services.open_runs.watch(chosen)) as tables:
        async for table in tables:
            board, waiting = await services.boards.board(), await services.badges.approvals()
            yield rendered(request, "parts/now.html", table=table, board=board, waiting=waiting)


HANDLERS = (get_start, get_now, get_now_stream)
