"""The readable parts of a broken file are read, and warnings name the others."""

import io
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, DecodedStreamObject, DictionaryObject, NameObject, NumberObject

from agentchat.knowledge.documents import parse
from agentchat.knowledge.errors import Unreadable
from agentchat.knowledge.importing.import_files import FoundFile, read_draft
from tests.knowledge import made_files
from tests.knowledge.made_files import convert

MAIN = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PICTURE = (
    '<w:p><w:r><w:drawing><wp:inline xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/'
    'wordprocessingDrawing"><a:graphic xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main">'
    '<a:graphicData><pic:pic xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"><pic:blipFill>'
    f'<a:blip xmlns:r="{LINKS}" r:embed="rId9"/></pic:blipFill></pic:pic></a:graphicData></a:graphic>'
    "</wp:inline></w:drawing></w:r></w:p>"
)
LINK = f'<w:p><w:hyperlink xmlns:r="{LINKS}" r:id="rId9"><w:r><w:t>linked</w:t></w:r></w:hyperlink></w:p>'
NOTE = '<w:p><w:r><w:t>noted</w:t></w:r><w:r><w:footnoteReference w:id="7"/></w:r></w:p>'
TABLE = (
    "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>Size</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>Price</w:t></w:r></w:p>"
    "</w:tc></w:tr></w:tbl>"
)


def make_docx(body: str = "", **parts: str) -> bytes:
    """Make a DOCX with a heading and the text `Kept`, then `body`, and further parts."""
    content = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(made_files.make_docx(("Heading1", "Head"), ("Normal", "Kept")))) as made,
        zipfile.ZipFile(content, "w") as file,
    ):
        for name in made.namelist():
            data = made.read(name).decode()
            file.writestr(name, data.replace("</w:body>", f"{body}</w:body>"))
        for name, data in parts.items():
            file.writestr(name.replace("__", "/").replace("_dot_", "."), data)
    return content.getvalue()


def make_relationships(target: str, kind: str = "image") -> str:
    return (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'<Relationship Id="rId9" Type="{LINKS}/{kind}" Target="{target}"/></Relationships>'
    )


def test_a_table_of_word_has_rows() -> None:
    read = convert(make_docx(TABLE), "docx")
    assert parse(read.html, "docx").sections[0].text == "Kept\n\nSize | Price"
    assert read.warnings == ()


@pytest.mark.parametrize(
    ("content", "is_told"),
    [
        (make_docx(PICTURE), True),
        (make_docx(LINK), True),
        (make_docx(LINK + PICTURE), True),
        (
            make_docx(PICTURE, **{"word___rels__document.xml.rels": make_relationships("media/none.png")}),
            True,
        ),
        (make_docx(NOTE), True),
        (make_docx(PICTURE, **{"word___rels__document.xml.rels": "<broken"}), True),
        (
            make_docx(
                "",
                **{
                    "word__styles.xml": "<broken",
                    "word___rels__document.xml.rels": make_relationships("styles.xml", "styles"),
                },
            ),
            True,
        ),
        (
            make_docx(
                "",
                **{
                    "word__comments.xml": "",
                    "word___rels__document.xml.rels": make_relationships("comments.xml", "comments"),
                },
            ),
            True,
        ),
    ],
)
def test_the_rest_of_a_broken_docx_is_read(content: bytes, is_told: bool) -> None:
    read = convert(content, "docx")
    (section,) = parse(read.html, "docx").sections
    assert section.path == ("Head",)
    assert section.text.startswith("Kept")
    assert len(read.warnings) <= is_told


def break_pdf(*pages: str, damage: Callable[[PdfWriter], None]) -> bytes:
    writer = PdfWriter(
        clone_from=PdfReader(
            io.BytesIO(made_files.make_pdf(*pages, title="T", outline=(("One", 0, False), ("Two", 1, False))))
        )
    )
    damage(writer)
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def break_contents(writer: PdfWriter, *numbers: int) -> None:
    for number in numbers:
        stream = DecodedStreamObject()
        stream.set_data(b"x")
        stream[NameObject("/Filter")] = NameObject("/NoSuchFilter")
        writer.pages[number][NameObject("/Contents")] = writer._add_object(stream)


def break_outline(writer: PdfWriter) -> None:
    writer._root_object[NameObject("/Outlines")] = NumberObject(3)


def break_entry(writer: PdfWriter) -> None:
    outlines: Any = writer._root_object["/Outlines"]
    first = outlines.get_object()["/First"].get_object()
    first[NameObject("/Dest")] = ArrayObject([NumberObject(99), NameObject("/Wrong"), NameObject("/x")])


def break_info(writer: PdfWriter) -> None:
    info: Any = writer._info
    info.get_object()[NameObject("/Title")] = DictionaryObject()


@pytest.mark.parametrize(
    ("damage", "warning"),
    [
        (lambda writer: break_contents(writer, 1), "page 2 cannot be read"),
        (lambda writer: break_contents(writer, 0, 2), "pages 1, 3 cannot be read"),
        (break_outline, None),
        (break_entry, None),
        (break_info, None),
    ],
    ids=["page", "pages", "outline", "entry", "info"],
)
def test_the_rest_of_a_broken_pdf_is_read(damage: Callable[[PdfWriter], None], warning: str | None) -> None:
    read = convert(break_pdf("Alpha", "Beta", "Gamma", "Delta", damage=damage), "pdf")
    assert "Delta" in read.html
    assert read.warnings == (() if warning is None else (warning,))


def test_a_pdf_without_a_readable_page_is_refused() -> None:
    content = break_pdf("Alpha", "Beta", damage=lambda writer: break_contents(writer, 0, 1))
    assert "has no page that can be read" in convert(content, "pdf").problem


@pytest.mark.parametrize(
    ("declared", "content", "text"),
    [
        ("iso-8859-1", b"\x93caf\xe9\x94 \x80", "“café” €"),
        ("latin1", b"\x93caf\xe9\x94", "“café”"),
        ("us-ascii", b"\x93caf\xe9\x94", "“café”"),
        ("ascii", b"caf\xe9", "café"),
        ("iso-8859-9", b"\xfe \x80", "ş €"),
        ("gb2312", "退款€".encode("gb18030"), "退款€"),
        ("gbk", "㐀退款".encode("gb18030"), "㐀退款"),
        ("shift_jis", "①返金㈱".encode("cp932"), "①返金㈱"),
        ("x-sjis", "返金".encode("cp932"), "返金"),
        ("euc-kr", "똠방각하 환불".encode("cp949"), "똠방각하 환불"),
        ("ks_c_5601-1987", "환불".encode("cp949"), "환불"),
        ("euc-jp", "返金".encode("euc-jp"), "返金"),
        ("iso-2022-jp", "返金".encode("iso-2022-jp"), "返金"),
        ("big5", "退款".encode("big5"), "退款"),
        ("koi8-r", "возврат".encode("koi8-r"), "возврат"),
        ("x-mac-cyrillic", "возврат".encode("mac-cyrillic"), "возврат"),
        ("windows-1251", "возврат".encode("cp1251"), "возврат"),
        ("iso-8859-1", "café €".encode(), "café €"),
        ("utf-16", "café".encode(), "café"),
    ],
)
@pytest.mark.parametrize(
    "head",
    [
        '<meta charset="{}">',
        "<!-- <meta charset=utf-8> --><META http-equiv=x content='text/html; charset={}'>",
    ],
)
def test_a_declared_encoding_is_what_browsers_read(
    head: str, declared: str, content: bytes, text: str
) -> None:
    draft = read_draft(FoundFile("a.html", content=head.format(declared).encode() + b"<p>" + content))
    assert parse(draft.text, "html").sections[0].text == text
    assert draft.warnings == ()


@pytest.mark.parametrize(
    ("declared", "content", "warning"),
    [
        ("utf-8", b"caf\xe9 \xe9", "2 places are not utf-8"),
        ("utf-8", b"caf\xe9", "1 place is not utf-8"),
        ("shift_jis", b"\x95\xd4\x81", "1 place is not shift_jis"),
    ],
)
def test_replaced_bytes_are_reported(declared: str, content: bytes, warning: str) -> None:
    draft = read_draft(FoundFile("a.html", content=f"<meta charset={declared}>".encode() + content))
    assert "\ufffd" in draft.text
    (told,) = draft.warnings
    assert told == f"{warning}, as the file declares, and became U+FFFD"


@pytest.mark.parametrize(
    ("declared", "content"),
    [("iso-2022-kr", "환불".encode("iso-2022-kr")), ("hz-gb-2312", "退款".encode("gbk"))],
)
def test_an_encoding_that_browsers_refuse_is_refused(declared: str, content: bytes) -> None:
    with pytest.raises(Unreadable, match="declares an encoding that cannot be read"):
        read_draft(FoundFile("a.html", content=f"<meta charset={declared}>".encode() + content))


def test_a_refused_encoding_does_not_keep_utf8_from_being_read() -> None:
    draft = read_draft(FoundFile("a.html", content="<meta charset=hz-gb-2312><p>退款".encode()))
    assert "退款" in draft.text
