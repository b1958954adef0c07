"""One page of a server's tools, also where some of its entries are not what the protocol says.

The client refuses a whole listing for one bad schema. Then the page is asked for once more past its checks,
by attributes of mcp 2.3 that its own source calls private, and each entry is judged for itself.
"""

from typing import Any

import mcp_types
from mcp import ClientSession
from mcp.shared.dispatcher import CallOptions
from pydantic import ValidationError

from tool_runner.faults import ToolFailed
from tool_runner.tools.server_tool import LeftOut

Entry = mcp_types.Tool | LeftOut


async def page_of_tools(
    session: ClientSession, cursor: str | None, seconds: float
) -> tuple[list[Entry], str | None]:
    """The entries of the page at `cursor`, and the next cursor. Raises what the client raises, ToolFailed."""
    params = mcp_types.PaginatedRequestParams(cursor=cursor)
    try:
        page = await session.list_tools(params=params)
    except ValidationError:
        return _judged(await _unchecked(session, params, seconds))
    return [*page.tools], page.next_cursor


async def _unchecked(
    session: ClientSession, params: mcp_types.PaginatedRequestParams, seconds: float
) -> dict[str, Any]:
    request = mcp_types.ListToolsRequest(params=params)
    data = request.model_dump(by_alias=True, mode="json", exclude_none=True)
    options: CallOptions = {"timeout": seconds}
    session._stamp(data, options)  # noqa: SLF001 - see above
    return await session._dispatcher.send_raw_request(data["method"], data.get("params"), options)  # noqa: SLF001


def _judged(raw: dict[str, Any]) -> tuple[list[Entry], str | None]:
    listed, cursor = raw.get("tools"), raw.get("nextCursor")
    if not isinstance(listed, list):
        raise ToolFailed("protocol", "no list of tools")
    return [_entry(entry) for entry in listed], cursor if isinstance(cursor, str) else None


def _entry(entry: Any) -> Entry:
    try:
        return mcp_types.Tool.model_validate(entry, by_name=False)
    except ValidationError:
        name = entry.get("name") if isinstance(entry, dict) else None
        return LeftOut(name=str(name)[:256], reason="its entry is not what the protocol says")
