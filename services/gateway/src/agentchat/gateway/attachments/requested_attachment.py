"""Read a file of a message in no protocol's terms: uploaded, at a URL, or in the body itself. Pure."""

import base64
import hashlib
import re
from collections.abc import Sequence
from urllib.parse import unquote, unquote_to_bytes, urlsplit

import msgspec

from agentchat.contracts import http
from agentchat.gateway.http.problems import Refusal

MAX_ATTACHMENTS = 20
"""The most of one message."""

_CONTENT_PATH = re.compile(r"(?:/openai)?/v1/files/([^/?#]+)/content\Z")


class RequestedAttachment(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a message brings: one of `file_id`, `url` and `data`.

    path: Its place in the body, for errors.
    media_type: What the request says that it is, "" if nothing.
    is_image: Whether it has to be an image.
    message: The index of its message in the history that was sent; None for the new message.
    """

    path: str
    file_id: str | None = None
    url: str | None = None
    data: bytes | None = None
    media_type: str = ""
    name: str = ""
    is_image: bool = False
    message: int | None = None

    @property
    def mark(self) -> str:
        """Return what tells the file from others, in hashes of requests and histories."""
        if self.data is not None:
            return hashlib.sha256(self.data).hexdigest()
        return self.file_id or self.url or ""


def read_attachment(
    path: str,
    *,
    file_id: str | None = None,
    url: str | None = None,
    data: str | None = None,
    media_type: str | None = None,
    name: str | None = None,
    is_image: bool = False,
) -> RequestedAttachment:
    """Read a file. `data` is base64 or a data: URL, and `url` may be a data: URL or our own content address.

    Raises Refusal: 400.
    """
    media_type, name = media_type or "", name or ""
    if sum(map(bool, (file_id, url, data))) != 1:
        raise build_attachment_refusal(path, "This has one of a file id, a URL and data.")
    if url and url[:5].lower() == "data:":
        data, url = url, None
    is_image = is_image or media_type.startswith("image")
    if data is not None:
        media_type, content = _decode_data(path, data, media_type)
        is_image = is_image or media_type.startswith("image")
        return RequestedAttachment(
            path=path, data=content, media_type=media_type, name=name, is_image=is_image
        )
    if url and (ours := _CONTENT_PATH.match(url)):
        file_id, url = ours[1], None
    if url and not url.lower().startswith(("https://", "http://")):
        raise build_attachment_refusal(path, "The URL begins with https: or data:.")
    name = name or (url and unquote(urlsplit(url).path.rpartition("/")[2])) or ""
    return RequestedAttachment(
        path=path, file_id=file_id, url=url, media_type=media_type, name=name, is_image=is_image
    )


def check_count(attachments: Sequence[RequestedAttachment]) -> None:
    """Check the number of files of one message. Raises Refusal: 400."""
    if len(attachments) > MAX_ATTACHMENTS:
        path = attachments[MAX_ATTACHMENTS].path
        raise build_attachment_refusal(path, f"A message has at most {MAX_ATTACHMENTS} files.")


def build_attachment_refusal(path: str, message: str, code: str = "unsupported_attachment") -> Refusal:
    """Build the refusal of a file, by its place in the body."""
    return Refusal(code, f"{path}: {message}", fields=[http.FieldError(field=path, message=message)])


def _decode_data(path: str, text: str, media_type: str) -> tuple[str, bytes]:
    is_base64 = True
    if text[:5].lower() == "data:":  # RFC 2397
        head, comma, text = text[5:].partition(",")
        claimed, *parameters = (each.strip() for each in head.split(";"))
        media_type = claimed or media_type
        is_base64 = "base64" in map(str.lower, parameters)
        if not comma:
            raise build_attachment_refusal(path, "This data: URL has no comma.")
    try:
        return media_type, base64.b64decode(text, validate=True) if is_base64 else unquote_to_bytes(text)
    except ValueError:
        raise build_attachment_refusal(path, "This is not valid base64.") from None
