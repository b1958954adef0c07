"""PDF and DOCX files: what becomes of them, and of those that are broken, locked, or made to harm."""

from collections.abc import Callable

import pytest

from agentchat.knowledge.documents import Section, parse
from agentchat.knowledge.reading import pdf as pdf_reading
from agentchat.knowledge.reading import read_file
from agentchat.knowledge.reading.file_errors import UnreadableFile
from tests.knowledge.made_files import convert, make_docx, make_pdf, make_swollen_pdf

_LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
_ENTITIES = f'<!DOCTYPE w [<!ENTITY l0 "ha">{_LAUGHS}]>'


def test_a_pdf_is_its_pages_under_the_headings_of_its_outline() -> None:
    content = make_pdf(
        *(
            "Welcome.",
            "Tents come back\nwithin 14 days, un-\ndamaged.",
            "Stoves do not.",
            "Call <us> & write.",
        ),
        title="Handbook",
        outline=(("Returns", 1, False), ("Stoves", 2, True), ("Contact", 3, False)),
    )
    parsed = parse(convert(content, "pdf").html, "pdf")
    assert parsed.title == "Handbook"
    assert parsed.sections == (
        Section(("page 1",), "Welcome."),
        Section(("Returns", "page 2"), "Tents come back within 14 days, undamaged."),
        Section(("Returns", "Stoves", "page 3"), "Stoves do not."),
        Section(("Contact", "page 4"), "Call <us> & write."),
    )


@pytest.mark.slow
async def test_the_titles_of_a_pdf_are_no_longer_than_titles_are() -> None:
    """A file of 25 KB can hold headings of megabytes, which stand above each of its pages again."""
    long = ("A" * 100_000, "B" * 100_000)
    made = make_pdf("one", "two", title="T" * 100_000, outline=((long[0], 0, False), (long[1], 1, False)))
    assert len((await read_file.convert_file(made, "pdf")).html) < 5_000


async def test_a_pdf_that_opens_without_a_password_is_read() -> None:
    assert "Open to all" in (await read_file.convert_file(make_pdf("Open to all", password=""), "pdf")).html


def test_a_docx_has_its_headings_and_no_pictures() -> None:
    content = make_docx(
        ("Heading1", "Returns"), ("Normal", "Tents <here>."), ("Heading2", "Stoves"), ("Normal", "No.")
    )
    parsed = parse(convert(content, "docx").html, "docx")
    assert parsed.title == "Returns"
    assert parsed.sections == (Section(("Returns",), "Tents <here>."), Section(("Returns", "Stoves"), "No."))


@pytest.mark.parametrize(
    ("kind", "made", "reason"),
    [
        ("pdf", lambda: b"", "is broken"),
        ("pdf", lambda: b"%PDF-1.7 and nothing else", "is broken"),
        ("pdf", lambda: make_pdf("Whole")[:200], "is broken"),
        ("pdf", lambda: make_docx(("Normal", "x")), "is broken"),
        ("pdf", lambda: make_pdf("Secret", password="geheim"), "is encrypted"),
        ("pdf", lambda: make_pdf("", ""), "holds no text"),
        ("docx", lambda: b"PK\x03\x04 and nothing else", "is broken"),
        ("docx", lambda: make_pdf("Whole"), "is broken"),
        ("docx", lambda: bytes.fromhex("d0cf11e0a1b11ae1") + bytes(512), "is encrypted"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_words(
    kind: str, made: Callable[[], bytes], reason: str
) -> None:
    assert reason in convert(made(), kind).problem


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "made", "reason"),
    [
        ("pdf", lambda: make_swollen_pdf(100 * 2**20), "unpacks to more"),
        ("docx", lambda: make_docx(("Normal", "x"), swollen=257 * 2**20), "unpacks to more"),
        ("docx", lambda: make_docx(("Normal", "&l9;"), prolog=_ENTITIES), "is broken"),
    ],
)
async def test_a_file_that_unpacks_to_too_much_is_refused(
    kind: str, made: Callable[[], bytes], reason: str
) -> None:
    with pytest.raises(UnreadableFile, match=reason):
        await read_file.convert_file(made(), kind)


async def test_a_pdf_has_so_many_pages_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_reading, "MOST_PAGES", 2)
    with pytest.raises(UnreadableFile, match="more than 2 pages"):
        pdf_reading.convert_to_html(make_pdf("1", "2", "3"))


async def test_a_file_that_takes_too_long_is_abandoned_with_its_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(read_file, "CPU_SECONDS", 0.001)
    with pytest.raises(UnreadableFile, match="too much time or memory"):
        await read_file.convert_file(make_pdf("x"), "pdf")
