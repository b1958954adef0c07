"""PDF, DOCX and XLSX files as tests want them."""

import io
import zipfile
from html import escape

from openpyxl import Workbook
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject, StreamObject

from agentchat.knowledge.reading.reader_process import ReadRequest, ReadResult, convert_file

_DOCUMENT = (
    '<?xml version="1.0"?>{prolog}<w:document xmlns:w='
    '"http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>{body}</w:body></w:document>'
)
_TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)
_RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="a" Target="word/document.xml" Type='
    '"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"/></Relationships>'
)


def convert(content: bytes, kind: str) -> ReadResult:
    """Return the answer of the reading process, without a process."""
    return convert_file(ReadRequest(kind, content))


def make_pdf(
    *pages: str, title: str = "", outline: tuple[tuple[str, int, bool], ...] = (), password: str | None = None
) -> bytes:
    """Make a PDF of pages. `outline`: headings, their pages (from 0 on), whether one is beneath
    the last that is not.
    """
    writer = PdfWriter()
    for text in pages:
        _add_page(writer, _render_lines(text))
    above = None
    for heading, place, beneath in outline:
        item = writer.add_outline_item(title=heading, page_number=place, parent=above if beneath else None)
        above = above if beneath else item
    if title:
        writer.add_metadata({"/Title": title})
    if password is not None:
        writer.encrypt(password, algorithm="RC4-128")
    return _write_file(writer)


def make_swollen_pdf(size: int) -> bytes:
    """Make a page whose text unpacks to so many bytes."""
    writer = PdfWriter()
    stream = DecodedStreamObject()
    stream.set_data(b" " * size)
    _add_page(writer, stream.flate_encode())
    return _write_file(writer)


def make_docx(*paragraphs: tuple[str, str], prolog: str = "", swollen: int = 0) -> bytes:
    """Make a DOCX of paragraphs with their styles; `swollen`: a further part of so many bytes."""
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'
        for style, text in ((style, text if prolog else escape(text)) for style, text in paragraphs)
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr("[Content_Types].xml", _TYPES)
        parts.writestr("_rels/.rels", _RELATIONS)
        parts.writestr("word/document.xml", _DOCUMENT.format(prolog=prolog, body=body))
        if swollen:
            with parts.open("word/media/picture", "w") as part:
                for _ in range(swollen // 2**20):
                    part.write(bytes(2**20))
    return file.getvalue()


def _add_page(writer: PdfWriter, content: StreamObject) -> None:
    page = writer.add_blank_page(612, 792)
    font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    made = DictionaryObject({NameObject(name): NameObject(value) for name, value in font.items()})
    fonts = DictionaryObject({NameObject("/F1"): writer._add_object(made)})
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    page[NameObject("/Contents")] = writer._add_object(content)


def _render_lines(text: str) -> DecodedStreamObject:
    lines = " ".join(f"({line}) Tj 0 -14 Td" for line in text.split("\n"))
    stream = DecodedStreamObject()
    stream.set_data(f"BT /F1 12 Tf 72 720 Td {lines} ET".encode())
    return stream


def _write_file(writer: PdfWriter) -> bytes:
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def make_xlsx(**sheets: list[list[object]]) -> bytes:
    """Make a workbook of sheets, each a list of rows."""
    book = Workbook(write_only=True)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()
