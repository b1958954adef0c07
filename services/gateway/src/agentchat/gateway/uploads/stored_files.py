"""Find, delete and send the files that a caller may use."""

from collections.abc import AsyncIterator
from typing import Annotated
from urllib.parse import quote

from litestar.params import PathParameter
from litestar.response import Stream

from agentchat.contracts.ids import is_uuid
from agentchat.files.file_store import FileRow
from agentchat.gateway.http.problems import Refusal
from agentchat.gateway.http.request_context import JsonRequest

FileId = Annotated[str, PathParameter(description="The file's id, as the upload answered.")]


async def find_file(request: JsonRequest, file_id: str) -> FileRow:
    """Find a file that the caller may use. Raises Refusal: 404; DatabaseUnavailable."""
    found = await request.services.files.get(request.auth, file_id) if is_uuid(file_id) else None
    if found is None:
        raise Refusal("file_not_found")
    return found


async def delete_file(request: JsonRequest, file_id: str) -> None:
    """Delete a file that the caller may use. Raises Refusal: 404; DatabaseUnavailable."""
    if not is_uuid(file_id) or not await request.services.files.delete(request.auth, file_id):
        raise Refusal("file_not_found")


async def stream_content(request: JsonRequest, file_id: str) -> Stream:
    """Stream a file's bytes, for a download: a browser shows images only, and runs nothing.

    Raises Refusal: 404; FileGone, FilesUnavailable, DatabaseUnavailable.
    """
    stored = (await find_file(request, file_id)).stored
    chunks = request.services.files.stream(request.auth.account_id, stored.sha256)
    first = await anext(chunks)
    shown = "inline" if stored.is_image else "attachment"
    return Stream(
        _iterate_chunks(first, chunks),
        headers={
            "content-type": stored.media_type,
            "content-length": str(stored.bytes),
            "content-disposition": f"{shown}; filename*=UTF-8''{quote(stored.name, safe='')}",
            "content-security-policy": "sandbox; default-src 'none'",
            "x-content-type-options": "nosniff",
            "cross-origin-resource-policy": "same-origin",
        },
    )


async def _iterate_chunks(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in rest:
        yield chunk
