"""Store the images and files of a tool's result, so that the model and the caller can see them."""

import base64
import mimetypes
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

import mcp_types

from agentchat.contracts.files import StoredFile
from agentchat.contracts.tool_messages import ToolRequested
from agentchat.files.errors import FileRefused, FilesError
from agentchat.files.file_store import FileStore
from agentchat.runtime.logs import get_logger
from agentchat.runtime.postgres import DatabaseUnavailable

MAX_FILES = 10
"""The most files of one result that are stored."""

_TOO_MANY = f"It was not kept: a result has at most {MAX_FILES} files."
_UNAVAILABLE = "It could not be stored at the moment."

StoredOrReason = StoredFile | str
"""A file, or a sentence that says why it was not stored."""


class _Found(NamedTuple):
    place: int
    name: str
    media_type: str | None
    data: str


async def store_files(
    store: FileStore, request: ToolRequested, result: mcp_types.CallToolResult
) -> dict[int, StoredOrReason]:
    """Store the images and binary resources; return the outcome of each by its place in the content.

    A file that cannot be stored does not fail the call, which may have changed something.
    """
    found = [] if result.is_error else list(_find_files(request, result))
    stored: dict[int, StoredOrReason] = dict.fromkeys((each.place for each in found[MAX_FILES:]), _TOO_MANY)
    for each in found[:MAX_FILES]:
        stored[each.place] = await _store(store, request, each)
    return stored


async def _store(store: FileStore, request: ToolRequested, found: _Found) -> StoredOrReason:
    try:
        content = base64.b64decode(found.data, validate=True)
        return await store.put(
            request.account_id,
            request.user_id,
            found.name,
            content,
            claimed_type=found.media_type,
            purpose="tool_result",
        )
    except ValueError:
        return "It was not kept: it is not base64."
    except FileRefused as refused:
        return f"It was not kept. {refused}"
    except (FilesError, DatabaseUnavailable) as error:
        get_logger("calls").warning("file_not_stored", call_id=request.call_id, reason=str(error))
        return _UNAVAILABLE


def _find_files(request: ToolRequested, result: mcp_types.CallToolResult) -> Iterator[_Found]:
    """Yield the images and binary resources, which get the name of the tool or of their URI."""
    for place, block in enumerate(result.content):
        match block:
            case mcp_types.ImageContent():
                ending = mimetypes.guess_extension(block.mime_type) or ""
                yield _Found(place, f"{request.tool}-{place + 1}{ending}", block.mime_type, block.data)
            case mcp_types.EmbeddedResource(resource=mcp_types.BlobResourceContents() as resource):
                name = unquote(str(resource.uri)).rstrip("/").rsplit("/", 1)[-1]
                yield _Found(place, name, resource.mime_type, resource.blob)
