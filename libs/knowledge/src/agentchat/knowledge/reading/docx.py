"""Convert a DOCX file with its headings, lists and tables by mammoth; without pictures."""

import io
import zipfile

import mammoth

from agentchat.knowledge.reading.file_errors import MOST_CHARACTERS, UnreadableFile

MOST_UNPACKED = 256 * 1024 * 1024
MOST_PARTS = 10_000
_OLE = bytes.fromhex("d0cf11e0a1b11ae1")
"""The first bytes of an encrypted DOCX and of a file of an older Word."""


def convert_to_html(content: bytes) -> str:
    """Raises UnreadableFile, and whatever mammoth raises for a broken file."""
    if content.startswith(_OLE):
        raise UnreadableFile("is encrypted, or of a Word before 2007")
    parts = zipfile.ZipFile(io.BytesIO(content)).infolist()
    if len(parts) > MOST_PARTS or sum(part.file_size for part in parts) > MOST_UNPACKED:
        raise UnreadableFile(f"unpacks to more than {MOST_UNPACKED // 1024**2} MiB, or {MOST_PARTS:,} parts")
    html: str = mammoth.convert_to_html(io.BytesIO(content), convert_image=lambda _: []).value
    if len(html) > MOST_CHARACTERS:
        raise UnreadableFile(f"holds more than {MOST_CHARACTERS:,} characters")
    return html
