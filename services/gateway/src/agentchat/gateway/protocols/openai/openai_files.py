"""Serve files as OpenAI does: /openai/v1/files."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from litestar import delete, get, post
from litestar.params import QueryParameter
from litestar.response import Stream

from agentchat.files.file_store import FileRow
from agentchat.gateway.access.checks import may_act_as_openai, may_read_files_as_openai, may_upload_as_openai
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.uploads.store_upload import store_upload
from agentchat.gateway.uploads.stored_files import FileId, delete_file, find_file, stream_content

_LONGEST_SECONDS = 2_592_000
_MAX_LIST = 1000


class FileObject(msgspec.Struct, frozen=True, kw_only=True):
    """A file. Times are seconds since 1970."""

    id: str
    bytes: int
    created_at: int
    filename: str
    purpose: str
    expires_at: int | None
    object: Literal["file"] = "file"
    status: Literal["processed"] = "processed"


class FileObjects(msgspec.Struct, frozen=True, kw_only=True):
    """A page of files, the newest first; `after` is the id of the last of the page before."""

    data: tuple[FileObject, ...]
    first_id: str | None
    last_id: str | None
    has_more: bool
    object: Literal["list"] = "list"


class FileDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a deletion."""

    id: str
    object: Literal["file"] = "file"
    deleted: Literal[True] = True


@post(
    "/files",
    status_code=200,
    operation_id="createOpenAIFile",
    summary="Upload a file of at most 32 MiB: multipart/form-data with `file`, `purpose`, `expires_after`.",
    guards=[may_upload_as_openai],
    request_max_body_size=None,  # `receive_form` bounds it
)
async def create_file(request: JsonRequest) -> FileObject:
    """Store the file, as `POST /v1/files`."""
    field = "expires_after[seconds]"
    return _build_object(await store_upload(request, expires_field=field, longest=_LONGEST_SECONDS))


@get(
    "/files",
    operation_id="listOpenAIFiles",
    summary="List files.",
    guards=[may_read_files_as_openai],
)
async def list_files(
    request: JsonRequest,
    limit: Annotated[int, QueryParameter(ge=1, le=10_000, description="1000 at most are sent.")] = _MAX_LIST,
    after: Annotated[str | None, QueryParameter(description="The id of the last file before.")] = None,
    purpose: Annotated[str | None, QueryParameter(description="Only these of the page.")] = None,
) -> FileObjects:
    """Return a page of files, the newest first."""
    most = min(limit, _MAX_LIST)
    rows = await request.services.files.list_files(request.auth, limit=most + 1, before=after or None)
    page = [_build_object(row) for row in rows[:most] if purpose in (None, row.purpose)]
    return FileObjects(
        data=tuple(page),
        first_id=page[0].id if page else None,
        last_id=page[-1].id if page else None,
        has_more=len(rows) > most,
    )


@get(
    "/files/{file_id:str}",
    operation_id="getOpenAIFile",
    summary="Get one of them.",
    guards=[may_read_files_as_openai],
)
async def get_file(request: JsonRequest, file_id: FileId) -> FileObject:
    """Return the file without its content."""
    return _build_object(await find_file(request, file_id))


@get(
    "/files/{file_id:str}/content",
    operation_id="getOpenAIFileContent",
    summary="Get a file's content.",
    media_type="application/octet-stream",
    guards=[may_read_files_as_openai],
)
async def get_file_content(request: JsonRequest, file_id: FileId) -> Stream:
    """Return the bytes."""
    return await stream_content(request, file_id)


@delete(
    "/files/{file_id:str}",
    status_code=200,
    operation_id="deleteOpenAIFile",
    summary="Delete a file for every reader.",
    guards=[may_act_as_openai],
    opt={"scope": "manage"},
)
async def delete_openai_file(request: JsonRequest, file_id: FileId) -> FileDeleted:
    """Delete the file."""
    await delete_file(request, file_id)
    return FileDeleted(id=file_id)


HANDLERS = (create_file, list_files, get_file, get_file_content, delete_openai_file)


def _build_object(file: FileRow) -> FileObject:
    return FileObject(
        id=file.stored.file_id,
        bytes=file.stored.bytes,
        created_at=_to_seconds(file.created_at),
        filename=file.stored.name,
        purpose=file.purpose,
        expires_at=None if file.expires_at is None else _to_seconds(file.expires_at),
    )


def _to_seconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp())
