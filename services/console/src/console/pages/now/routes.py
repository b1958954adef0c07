"""The addresses of Now."""

from typing import Any

from litestar import get
from litestar.response import Redirect, Stream, Template

from console.console_services import services_of
from console.frame.access import AnyRequest
from console.frame.rendering import page
from console.live.broadcast import stream
from console.pages.now.live_runs import NowFilter


def _chosen(request: AnyRequest) -> NowFilter:
    given: Any = request.query_params
    return NowFilter(account_id=given.get("account") or None, agent_id=given.get("agent") or None)


@get("/")
async def get_start() -> Redirect:
    return Redirect("/now")


@get("/now")
async def get_now(request: AnyRequest) -> Template:
    now, chosen = services_of(request).now, _chosen(request)
    table = await (await now.table_of(chosen)).table()
    board = await now.boards.board()
    return page(
        request,
        "now.html",
        title="Now",
        table=table,
        board=board,
        chosen=chosen,
        query=str(request.url.query),
    )


@get("/now/stream")
async def get_now_stream(request: AnyRequest) -> Stream:
    return stream((await services_of(request).now.table_of(_chosen(request))).read())


HANDLERS = (get_start, get_now, get_now_stream)
