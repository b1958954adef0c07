"""Check the tools that a server lists.

Keep them, within limits, or leave them out with a reason.
"""

import asyncio
from collections.abc import Sequence

import mcp_types
import msgspec

from agentchat.contracts.text_checks import clean_text
from agentchat.tool_runner.credential_redaction import STRUCK
from agentchat.tool_runner.tools.input_schemas import Schema, UnfitSchema, normalize_schema

MAX_TOOLS = 256
"""The most tools of a server. Later ones are left out, as are those past MAX_BYTES of definitions."""
MAX_BYTES = 384 * 1024
_DESCRIPTION_CHARS = 8192
_NAME_CHARS = 256


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that a model can be offered, under the name that its server gives it."""

    name: str
    description: str
    input_schema: Schema
    read_only: bool
    idempotent: bool
    destructive: bool | msgspec.UnsetType = msgspec.UNSET
    open_world: bool | msgspec.UnsetType = msgspec.UNSET

    @property
    def repeatable(self) -> bool:
        """Return True if a second call does no harm."""
        return self.read_only or self.idempotent


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that no model is offered, with the reason."""

    name: str
    reason: str


async def check_tools(
    listed: Sequence[mcp_types.Tool],
) -> tuple[dict[str, OfferedTool], list[LeftOut]]:
    """Return a server's tools by name, and those that are left out.

    Other tasks run in between, since a check may take a while.
    """
    kept: dict[str, OfferedTool] = {}
    left_out: list[LeftOut] = []
    room = MAX_BYTES
    for entry in listed:
        await asyncio.sleep(0)
        tool = _check(entry)
        if isinstance(tool, OfferedTool):
            room -= len(msgspec.json.encode(tool))
            if tool.name in kept:
                tool = LeftOut(name=tool.name, reason="its name is listed twice")
            elif room < 0 or len(kept) == MAX_TOOLS:
                tool = LeftOut(name=tool.name, reason="the server has too many tools")
        if isinstance(tool, OfferedTool):
            kept[tool.name] = tool
        else:
            left_out.append(tool)
    return kept, left_out


def _check(listed: mcp_types.Tool) -> OfferedTool | LeftOut:
    if not 0 < len(listed.name) <= _NAME_CHARS or listed.name != clean_text(listed.name):
        return LeftOut(
            name=clean_text(listed.name)[:_NAME_CHARS], reason="its name is empty, too long or not plain text"
        )
    if STRUCK in listed.name:
        return LeftOut(name=listed.name, reason="its name holds a credential")
    if listed.execution is not None and listed.execution.task_support == "required":
        return LeftOut(name=listed.name, reason="it runs only as a task")
    try:
        schema = normalize_schema(listed.input_schema)
    except UnfitSchema as unfit:
        return LeftOut(name=listed.name, reason=str(unfit))
    hints = listed.annotations or mcp_types.ToolAnnotations()
    title = listed.title or hints.title or ""
    return OfferedTool(
        name=listed.name,
        description=clean_text(listed.description or title)[:_DESCRIPTION_CHARS],
        input_schema=schema,
        read_only=bool(hints.read_only_hint),
        idempotent=bool(hints.idempotent_hint),
        destructive=msgspec.UNSET if hints.destructive_hint is None else hints.destructive_hint,
        open_world=msgspec.UNSET if hints.open_world_hint is None else hints.open_world_hint,
    )
