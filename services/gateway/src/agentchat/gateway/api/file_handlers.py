"""Upload, list, read and delete files: /v1/files."""

import msgspec
from litestar import delete, get, post
from litestar.response import Stream

from agentchat.files.file_store import FileRow
from agentchat.gateway.access.checks import may_act, may_read, may_upload
from agentchat.gateway.http.pagination import Cursor, Limit, NextCursor, decode_position, take_first_page
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.uploads.store_upload import store_upload
from agentchat.gateway.uploads.stored_files import FileId, delete_file, find_file, stream_content


class FileEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A stored file. `media_type` was found in its content; at `expires_at` it is deleted."""

    file_id: str
    name: str
    media_type: str
    bytes: int
    sha256: str
    user_id: str | None
    created_at: str
    expires_at: str | None


class FilePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of files, the newest first."""

    data: tuple[FileEntry, ...]
    next_cursor: NextCursor


@post(
    "/v1/files",
    operation_id="uploadFile",
    summary="Upload a file of at most 32 MiB: multipart/form-data with the part `file`.",
    guards=[may_upload],
    request_max_body_size=None,  # `receive_form` bounds it
)
async def upload(request: JsonRequest) -> FileEntry:
    """Store the file. PNG, JPEG, GIF, WebP, PDF, plain text, CSV, DOCX and XLSX, by content.

    The part `expires_in_seconds` (3600 to 7776000) bounds how long it is kept; a file that no conversation
    has is deleted after 30 days.
    """
    return build_entry(await store_upload(request, expires_field="expires_in_seconds", longest=7_776_000))


@get("/v1/files", operation_id="listFiles", summary="List files.", guards=[may_read])
async def list_all(request: JsonRequest, limit: Limit = 20, cursor: Cursor = None) -> FilePage:
    """Return a page of files: those of the user that the request names, or all of the account."""
    rows = await request.services.files.list_files(
        request.auth, limit=limit + 1, before=decode_position(cursor, str)
    )
    page, cursor = take_first_page(rows, limit, lambda row: row.stored.file_id)
    return FilePage(data=tuple(map(build_entry, page)), next_cursor=cursor)


@get("/v1/files/{file_id:str}", operation_id="getFile", summary="Get one of them.", guards=[may_read])
async def get_one(request: JsonRequest, file_id: FileId) -> FileEntry:
    """Return the file without its content."""
    return build_entry(await find_file(request, file_id))


@get(
    "/v1/files/{file_id:str}/content",
    operation_id="getFileContent",
    summary="Get a file's content.",
    media_type="application/octet-stream",
    guards=[may_read],
)
async def get_content(request: JsonRequest, file_id: FileId) -> Stream:
    """Return the bytes, with the media type that was found in them."""
    return await stream_content(request, file_id)


@delete(
    "/v1/files/{file_id:str}",
    operation_id="deleteFile",
    summary="Delete a file for every reader. Messages keep its name.",
    guards=[may_act],
    opt={"scope": "manage"},
)
async def remove(request: JsonRequest, file_id: FileId) -> None:
    """Delete the file, and its bytes unless another file of the account has the same."""
    await delete_file(request, file_id)


HANDLERS = (upload, list_all, get_one, get_content, remove)


def build_entry(file: FileRow) -> FileEntry:
    """Return a file in the form of the API."""
    stored = file.stored
    return FileEntry(
        file_id=stored.file_id,
        name=stored.name,
        media_type=stored.media_type,
        bytes=stored.bytes,
        sha256=stored.sha256,
        user_id=file.user_id,
        created_at=file.created_at,
        expires_at=file.expires_at,
    )
