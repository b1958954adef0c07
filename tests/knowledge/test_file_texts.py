"""The text of a file as a model gets it, in place of the file."""

import hashlib
from datetime import date

import pytest

from agentchat.knowledge.reading import read_file, xlsx
from agentchat.knowledge.reading.read_file import TEXT_VERSION, extract_text
from tests.knowledge import test_broken_files
from tests.knowledge.made_files import convert, make_docx, make_pdf, make_xlsx

_OFFICE = "application/vnd.openxmlformats-officedocument"
_DOCX, _XLSX = f"{_OFFICE}.wordprocessingml.document", f"{_OFFICE}.spreadsheetml.sheet"
_STOCK = make_xlsx(
    Stock=[["Item", "Units"], ["Tent <2>", 3], [None, None], ["Stove", 4.5]], Days=[[date(2026, 1, 2), True]]
)


@pytest.mark.parametrize(
    ("media_type", "content", "text"),
    [
        ("application/pdf", make_pdf("Welcome.", "Tents."), "## page 1\n\nWelcome.\n\n## page 2\n\nTents."),
        (_DOCX, make_docx(("Heading1", "Returns"), ("Normal", "No.")), "## Returns\n\nNo."),
        (
            _XLSX,
            _STOCK,
            "## Stock\n\nItem | Units\nTent <2> | 3\nStove | 4.5\n\n## Days\n\n2026-01-02 00:00:00 | True",
        ),
        ("text/csv", b"a,b\n1,\xc3\xa9\n", "a,b\n1,é\n"),
        (
            "application/pdf",
            make_pdf("x", password="p"),
            "[the file is encrypted: it opens with a password only]",
        ),
    ],
    ids=["pdf", "docx", "xlsx", "csv", "encrypted"],
)
async def test_the_text_of_each_kind_of_file(media_type: str, content: bytes, text: str) -> None:
    assert await extract_text(content, media_type) == text


_SAMPLES = (
    ("application/pdf", make_pdf("Welcome.", "Tents.\nStoves.", outline=(("Goods", 1, False),))),
    ("application/pdf", make_pdf("x", password="p")),
    ("application/pdf", b"%PDF-1.7\nbroken"),
    (_DOCX, test_broken_files.make_docx(test_broken_files.TABLE)),
    (_DOCX, test_broken_files.make_docx(test_broken_files.LINK)),
    (_DOCX, test_broken_files.make_docx(test_broken_files.PICTURE + test_broken_files.NOTE)),
    (_DOCX, b"PK\x03\x04"),
    (_XLSX, _STOCK),
    ("text/csv", b"a,b\n1,\xff\n"),
)
_TEXTS = {2: "c7b1cf50a45c351439f2ff2ea0ef71215da7e5cb15f23709a65da870d0aebddb"}
"""The SHA-256 of the samples' texts by TEXT_VERSION."""


async def test_other_texts_have_another_version() -> None:
    """Texts are stored under the version. If they change, raise TEXT_VERSION and put their digest here."""
    texts = [await extract_text(content, media_type) for media_type, content in _SAMPLES]
    assert (TEXT_VERSION, hashlib.sha256("\0".join(texts).encode()).hexdigest()) in _TEXTS.items()


async def test_a_long_text_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_file, "MOST_TEXT", 3)
    assert await extract_text(b"12345", "text/csv") == "123\n\n[cut: these are the first 3 of 5 characters]"


def test_a_workbook_is_read_up_to_so_many_rows_and_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "MOST_ROWS", 2)
    monkeypatch.setattr(xlsx, "MOST_COLUMNS", 1)
    read = xlsx.convert_to_html(_STOCK)
    assert read.warnings == (
        "only its first 2 rows are read",
        "only the first 1 columns of the sheet Stock are read",
    )
    assert "<td>Tent &lt;2&gt;</td></tr>" in read.html
    assert "Stove" not in read.html


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"PK\x03\x04", "is broken"), (bytes.fromhex("d0cf11e0a1b11ae1"), "is encrypted")],
)
def test_a_workbook_that_cannot_be_read_says_why(content: bytes, problem: str) -> None:
    assert problem in convert(content, "xlsx").problem
