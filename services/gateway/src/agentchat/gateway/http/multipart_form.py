"""Receive a form with one file (multipart/form-data) as it arrives, without a temporary file.

Litestar's own parser spools files to disk, and a gateway has no disk.
"""

import asyncio
import io
from typing import NamedTuple

from litestar.exceptions import InternalServerException
from multipart import MultipartError, MultipartSegment, PushMultipartParser

from agentchat.contracts.files import MAX_FILE_BYTES
from agentchat.gateway.http.problems import Refusal, build_field_refusal, make_printable
from agentchat.gateway.http.request_context import JsonRequest

UPLOAD_SECONDS = 300.0
_MAX_BODY = MAX_FILE_BYTES + 64 * 1024
_MAX_FIELD = 4096
_MAX_PARTS = 20


class UploadForm(NamedTuple):
    """A form with its file; `claimed_type` is the Content-Type of the file's part."""

    fields: dict[str, str]
    name: str
    claimed_type: str | None
    content: bytes


async def receive_form(request: JsonRequest) -> UploadForm:
    """Receive the form. Its file is in the part `file`. Raises Refusal: 400, 413, 415."""
    media_type, parameters = request.content_type
    if media_type != "multipart/form-data" or not parameters.get("boundary"):
        raise Refusal("unsupported_media_type", "Send multipart/form-data with the file in the part file.")
    if (request.content_length or 0) > _MAX_BODY:
        raise Refusal("file_too_large")
    try:
        async with asyncio.timeout(UPLOAD_SECONDS):
            return await _parse(request, parameters["boundary"])
    except TimeoutError:
        raise Refusal("invalid_request", "The body did not arrive in time.") from None
    except (MultipartError, UnicodeDecodeError):
        raise Refusal("invalid_request", "The body is no multipart/form-data.") from None
    except InternalServerException:  # the client has gone
        raise Refusal("invalid_request", "The body is not complete.") from None


async def _parse(request: JsonRequest, boundary: str) -> UploadForm:
    fields: dict[str, str] = {}
    file: tuple[MultipartSegment, io.BytesIO] | None = None
    part: MultipartSegment | None = None
    content = io.BytesIO()
    received = 0
    with PushMultipartParser(boundary, max_segment_count=_MAX_PARTS) as parser:
        async for chunk in request.stream():
            received += len(chunk)
            if received > _MAX_BODY:
                raise Refusal("file_too_large")
            for item in parser.parse(chunk) if chunk and not parser.closed else ():
                if isinstance(item, MultipartSegment):
                    part, content = item, io.BytesIO()
                elif item:
                    content.write(item)
                    if part is not None and part.name != "file" and content.tell() > _MAX_FIELD:
                        raise build_field_refusal(
                            make_printable(part.name or ""), f"This is longer than {_MAX_FIELD} bytes."
                        )
                elif part is not None and part.name == "file":
                    file = part, content
                elif part is not None:
                    fields[part.name or ""] = content.getvalue().decode()
    if file is None:
        raise build_field_refusal("file", "Send the file in this part.")
    part, content = file
    claimed = part.content_type and f"{part.content_type}; charset={part.charset or 'utf-8'}"
    return UploadForm(fields, part.filename or "file", claimed, content.getvalue())
