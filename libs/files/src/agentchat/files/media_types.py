"""Find a file's media type in its content, and refuse what is not accepted. Pure.

The name decides only whether a text is CSV. Text is stored as UTF-8 without a byte order mark.
"""

import io
import re
import zipfile
import zlib

import imagesize

from agentchat.contracts.files import IMAGE_TYPES
from agentchat.contracts.text_checks import convert_to_utf8
from agentchat.files.errors import UnsupportedFile

PDF = "application/pdf"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
TEXT = "text/plain"
CSV = "text/csv"

ACCEPTED = IMAGE_TYPES | {PDF, DOCX, XLSX, TEXT, CSV}

MAX_PIXELS = 8000
"""The longest side of an image."""

_MAX_UNPACKED = 256 * 1024 * 1024
_MAX_PARTS = 10_000
_SIGNATURES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb".{0,1000}?%PDF-", re.DOTALL), PDF),
)
_OLE = bytes.fromhex("d0cf11e0a1b11ae1")
_ZIP = b"PK\x03\x04"
_ENCRYPTED_PDF = re.compile(rb"/Encrypt\s*(?:\d+\s+\d+\s+R|<<)")
_CONTENT_TYPES = "[Content_Types].xml"
_MAX_CONTENT_TYPES = 4 * 1024 * 1024
_OFFICE = (
    (b"wordprocessingml.document.main+xml", DOCX),
    (b"spreadsheetml.sheet.main+xml", XLSX),
)
_ACCEPTED_WORDS = "Send PNG, JPEG, GIF, WebP, PDF, plain text, CSV, DOCX or XLSX."


def inspect(content: bytes, name: str, claimed_type: str | None = None) -> tuple[str, bytes]:
    """Return the media type and the bytes to store. Raises UnsupportedFile.

    `claimed_type` is a Content-Type. It has to agree with the content if it is one of ACCEPTED; its charset
    is the encoding of a text.
    """
    claimed, charset = _split_type(claimed_type or "")
    media_type = _find_binary_type(content)
    if media_type is None:
        content = _decode_text(content, charset)
        media_type = CSV if claimed == CSV or name.lower().endswith(".csv") else TEXT
    if claimed in ACCEPTED and media_type not in (claimed, CSV if claimed == TEXT else claimed):
        raise UnsupportedFile(f"The file was sent as {claimed}, but its content is {media_type}.")
    return media_type, content


def _split_type(content_type: str) -> tuple[str, str | None]:
    media_type, _, parameters = content_type.partition(";")
    charset = re.search(r"charset\s*=\s*\"?([\w.:-]+)", parameters, re.IGNORECASE)
    return media_type.strip().lower(), charset[1] if charset else None


def _find_binary_type(content: bytes) -> str | None:
    """Return the type of anything but text, after a look inside; None for what may be text."""
    if content.startswith(_ZIP):
        return _find_office_type(content)
    if content.startswith(_OLE):
        raise UnsupportedFile("The file is encrypted, or of an Office before 2007.")
    media_type = next((kind for signature, kind in _SIGNATURES if signature.match(content)), None)
    if media_type in IMAGE_TYPES:
        _check_pixels(content)
    if media_type == PDF and _ENCRYPTED_PDF.search(content):
        raise UnsupportedFile("The PDF is encrypted. Send it without a password.")
    return media_type


def _check_pixels(content: bytes) -> None:
    width, height = imagesize.get(io.BytesIO(content))
    if width < 1 or height < 1:
        raise UnsupportedFile("The image is broken.")
    if max(width, height) > MAX_PIXELS:
        raise UnsupportedFile(
            f"The image has {width} x {height} pixels. Send at most {MAX_PIXELS} on a side."
        )


def _find_office_type(content: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = archive.infolist()
            if len(parts) > _MAX_PARTS or sum(part.file_size for part in parts) > _MAX_UNPACKED:
                raise UnsupportedFile(f"The file unpacks to more than {_MAX_UNPACKED // 1024**2} MiB.")
            with archive.open(_CONTENT_TYPES) as part:
                types = part.read(_MAX_CONTENT_TYPES)
    except (zipfile.BadZipFile, zlib.error, LookupError, RuntimeError, OSError, EOFError, ValueError):
        types = b""  # no archive of Office
    for mark, media_type in _OFFICE:
        if mark in types:
            return media_type
    raise UnsupportedFile(f"Files of this type are not accepted. {_ACCEPTED_WORDS}")


def _decode_text(content: bytes, charset: str | None) -> bytes:
    try:
        text = convert_to_utf8(content)
        if text is content and charset is not None:
            text = content.decode(charset).encode()
        decoded = text.decode()
    except (UnicodeDecodeError, LookupError):
        raise UnsupportedFile(
            f"Files of this type are not accepted, and text has to be UTF-8. {_ACCEPTED_WORDS}"
        ) from None
    if "\0" in decoded:
        raise UnsupportedFile(f"Files of this type are not accepted. {_ACCEPTED_WORDS}")
    if not decoded:
        raise UnsupportedFile("The file is empty.")
    return text
