"""The addresses of Now."""

from typing import Any

import msgspec
from litestar import get
from litestar.response import Redirect, Stream, Template

from console.console_services import services_of
from console.frame.access import AnyRequest
from console.frame.acting import note_live
from console.frame.directory import FilterChoices, filter_choices
from console.frame.event_source import event_stream
from console.frame.rendering import page
from console.frame.roles import Role
from console.pages.now.live_runs import NowFilter, RunTable
from contracts.admin_errors import Unavailable


def _chosen(request: AnyRequest) -> NowFilter:
    given: Any = request.query_params
    return NowFilter(account_id=given.get("account") or None, agent_id=given.get("agent") or None)


@get("/", role=Role.VIEWER)
async def get_start() -> Redirect:
    return Redirect("/now")


@get("/now", role=Role.VIEWER)
async def get_now(request: AnyRequest) -> Template:
    now, chosen = services_of(request).now, _chosen(request)
    try:
        await note_live(request, msgspec.structs.asdict(chosen))
        table = await (await now.table_of(chosen)).table()
    except Unavailable as error:  # nobody reads what the audit log cannot say
        table = RunTable(rows=[], total=0, problem=str(error).capitalize())
    board = await now.boards.board()
    try:
        choices = await filter_choices(request)
    except Unavailable:  # what is away is said on the page
        choices = FilterChoices(None, None)
    return page(
        request,
        "now.html",
        title="Now",
        table=table,
        board=board,
        chosen=chosen,
        choices=choices,
        query=str(request.url.query),
    )


@get("/now/stream", role=Role.VIEWER)
async def get_now_stream(request: AnyRequest) -> Stream:
    chosen = _chosen(request)
    await note_live(request, msgspec.structs.asdict(chosen))
    table = await services_of(request).now.table_of(chosen)
    return await event_stream(request, table.read())


HANDLERS = (get_start, get_now, get_now_stream)
