"""What a file is, by its content, and what is refused."""

import io
import zipfile

import pytest

from agentchat.files.errors import UnsupportedFile
from agentchat.files.media_types import CSV, DOCX, PDF, TEXT, XLSX, inspect
from tests.files.images import GIF, JPEG, WEBP, make_png
from tests.knowledge.made_files import make_docx, make_pdf, make_xlsx


def make_zip(**parts: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "name", "claimed", "found"),
    [
        pytest.param(make_png(), "a.pdf", None, "image/png", id="png, whatever its name"),
        pytest.param(make_png(8000, 8000), "a.png", "image/png", "image/png", id="the largest image"),
        pytest.param(JPEG, "a", "image/jpeg", "image/jpeg", id="jpeg"),
        pytest.param(GIF, "a", None, "image/gif", id="gif"),
        pytest.param(WEBP, "a", None, "image/webp", id="webp"),
        pytest.param(make_pdf("Hello"), "a", "application/octet-stream", PDF, id="pdf"),
        pytest.param(b"junk\n" + make_pdf("Hello"), "a", None, PDF, id="pdf after a few bytes"),
        pytest.param(make_docx(("Normal", "Hello")), "a.zip", "application/zip", DOCX, id="docx"),
        pytest.param(make_xlsx(one=[["a", 1]]), "a.docx", None, XLSX, id="xlsx"),
        pytest.param("Grüße".encode(), "a.txt", "text/plain", TEXT, id="text"),
        pytest.param(b"<svg onload='x'/>", "a.svg", "image/svg+xml", TEXT, id="svg is text"),
        pytest.param(b"a,b\n1,2\n", "A.CSV", "text/plain", CSV, id="csv by name"),
        pytest.param(b"a,b\n1,2\n", "a", "text/csv; charset=utf-8", CSV, id="csv by type"),
    ],
)
def test_the_type_is_found_in_the_content(content: bytes, name: str, claimed: str | None, found: str) -> None:
    assert inspect(content, name, claimed) == (found, content)


@pytest.mark.parametrize(
    ("content", "claimed"),
    [
        pytest.param("Grüße".encode("latin-1"), "text/plain; charset=ISO-8859-1", id="declared"),
        pytest.param("Grüße".encode("utf-16"), "text/plain", id="byte order mark"),
    ],
)
def test_text_is_stored_as_utf8(content: bytes, claimed: str) -> None:
    assert inspect(content, "a.txt", claimed) == (TEXT, "Grüße".encode())


@pytest.mark.parametrize(
    ("content", "claimed", "reason"),
    [
        pytest.param(b"", None, "is empty", id="empty"),
        pytest.param(make_pdf("Hello"), "image/png", "sent as image/png, but its content is", id="claim"),
        pytest.param(b"Hello", "image/png", "but its content is text/plain", id="text as an image"),
        pytest.param(make_png(20_000, 2), None, "20000 x 2 pixels", id="20,000 pixels"),
        pytest.param(b"\x89PNG\r\n\x1a\n", None, "The image is broken", id="broken image"),
        pytest.param(make_pdf("Hello", password="p"), None, "PDF is encrypted", id="encrypted pdf"),
        pytest.param(bytes.fromhex("d0cf11e0a1b11ae1"), None, "is encrypted, or", id="encrypted docx"),
        pytest.param(make_zip(a=b"b"), None, "not accepted", id="any zip"),
        pytest.param(b"PK\x03\x04broken", None, "not accepted", id="broken zip"),
        pytest.param(b"\x7fELF\0\xff", None, "not accepted", id="a program"),
        pytest.param(b"a\0b", None, "not accepted", id="NUL"),
        pytest.param(b"\xfc", "text/plain; charset=nope", "text has to be UTF-8", id="unknown charset"),
    ],
)
def test_anything_else_is_refused_by_name(content: bytes, claimed: str | None, reason: str) -> None:
    with pytest.raises(UnsupportedFile, match=reason):
        inspect(content, "a", claimed)


def test_a_zip_bomb_is_refused() -> None:
    with pytest.raises(UnsupportedFile, match="unpacks to more"):
        inspect(make_docx(("Normal", "a"), swollen=300 * 2**20), "a", None)
