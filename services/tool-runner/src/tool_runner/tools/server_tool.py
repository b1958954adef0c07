"""A server's tools as this service keeps them: checked, repaired, bounded, or left out with a reason."""

import asyncio
from collections.abc import Sequence
from typing import Any

import mcp_types
import msgspec
from mcp import ClientSession
from mcp.shared.dispatcher import CallOptions
from pydantic import ValidationError

from contracts.text import cleaned
from tool_runner.faults import ToolFailed
from tool_runner.redaction import redacted, redacted_value
from tool_runner.tools.input_schemas import Schema, UnfitSchema, normalized

MAX_TOOLS = 256
"""Tools of one server; those after are left out, as are those past MAX_BYTES of schemas and descriptions."""
MAX_BYTES = 384 * 1024
_DESCRIPTION_CHARS = 8192
_NAME_CHARS = 256


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that can be offered and called, under the name that its server gives it."""

    name: str
    description: str
    input_schema: Schema
    read_only: bool
    idempotent: bool

    @property
    def repeatable(self) -> bool:
        return self.read_only or self.idempotent


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    reason: str


async def checked_tools(
    listed: Sequence[mcp_types.Tool | LeftOut], secrets: Sequence[str]
) -> tuple[dict[str, OfferedTool], list[LeftOut]]:
    """A server's tools by name, and those that are not offered. Lets other tasks run in between.

    `secrets`, which the server was sent, are in none of it.
    """
    kept: dict[str, OfferedTool] = {}
    left_out: list[LeftOut] = []
    room = MAX_BYTES
    for entry in listed:
        await asyncio.sleep(0)
        tool = entry if isinstance(entry, LeftOut) else _kept(entry, secrets)
        if isinstance(tool, OfferedTool):
            room -= len(msgspec.json.encode(tool))
            if tool.name in kept:
                tool = LeftOut(name=tool.name, reason="its name is listed twice")
            elif room < 0 or len(kept) == MAX_TOOLS:
                tool = LeftOut(name=tool.name, reason="the server has too many tools")
        if isinstance(tool, OfferedTool):
            kept[tool.name] = tool
        else:
            left_out.append(LeftOut(name=redacted(tool.name, secrets), reason=tool.reason))
    return kept, left_out


def _kept(listed: mcp_types.Tool, secrets: Sequence[str]) -> OfferedTool | LeftOut:
    if not 0 < len(listed.name) <= _NAME_CHARS or listed.name != cleaned(listed.name):
        return LeftOut(
            name=cleaned(listed.name)[:_NAME_CHARS], reason="its name is empty, too long or no text"
        )
    if listed.name != redacted(listed.name, secrets):
        return LeftOut(name=listed.name, reason="its name holds a credential")
    if listed.execution is not None and listed.execution.task_support == "required":
        return LeftOut(name=listed.name, reason="it runs only as a task")
    try:
        schema = normalized(redacted_value(listed.input_schema, secrets))
    except UnfitSchema as unfit:
        return LeftOut(name=listed.name, reason=str(unfit))
    hints = listed.annotations or mcp_types.ToolAnnotations()
    title = listed.title or hints.title or ""
    return OfferedTool(
        name=listed.name,
        description=redacted(cleaned(listed.description or title), secrets)[:_DESCRIPTION_CHARS],
        input_schema=schema,
        read_only=bool(hints.read_only_hint),
        idempotent=bool(hints.idempotent_hint),
    )


Entry = mcp_types.Tool | LeftOut


async def page_of_tools(
    session: ClientSession, cursor: str | None, seconds: float
) -> tuple[list[Entry], str | None]:
    """The entries of the page at `cursor`, and the next cursor. Raises what the client raises, ToolFailed.

    The client refuses a complete listing for one bad schema. Then the page is requested again without its
    checks, by attributes of mcp 2.3 that are private there, and each entry is judged for itself.
    """
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
    session._stamp(data, options)  # noqa: SLF001 - see page_of_tools
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
