"""Convert a DOCX file with its headings, lists and tables by mammoth; without pictures.

mammoth refuses a file for one missing reference; only the text of such a file is read.
"""

import io
import zipfile

import mammoth
from lxml import etree

from agentchat.knowledge.reading.file_errors import (
    MOST_CHARACTERS,
    ConvertedFile,
    UnreadableFile,
    refuse_swollen,
)

_OLE = bytes.fromhex("d0cf11e0a1b11ae1")
"""The first bytes of an encrypted DOCX and of a file of an older Word."""


_RELATIONSHIPS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_BARE = "notes, comments, links and styles cannot be read and were left out"


def convert_to_html(content: bytes) -> ConvertedFile:
    """Convert the file, leaving out what is broken next to its text.

    Raises UnreadableFile, and whatever mammoth raises if the text itself is broken.
    """
    if content.startswith(_OLE):
        raise UnreadableFile("is encrypted, or of a Word before 2007")
    refuse_swollen(zipfile.ZipFile(io.BytesIO(content)))
    html, warnings = _convert(content)
    if len(html) > MOST_CHARACTERS:
        raise UnreadableFile(f"holds more than {MOST_CHARACTERS:,} characters")
    return ConvertedFile(html, warnings)


def _convert(content: bytes) -> tuple[str, tuple[str, ...]]:
    try:
        return _call_mammoth(content), ()
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - mammoth raises anything for a broken part
        return _call_mammoth(_keep_text(content)), (_BARE,)


def _call_mammoth(content: bytes) -> str:
    html: str = mammoth.convert_to_html(io.BytesIO(content), convert_image=lambda _: []).value
    return html


def _keep_text(content: bytes) -> bytes:
    """Keep only the document's text, without other parts and without references to them."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        tree = _parse(file.read("word/document.xml"))
    for element in tree.iter():
        for name in [each for each in element.attrib if str(each).startswith(f"{{{_RELATIONSHIPS}}}")]:
            del element.attrib[name]
    references = [each for each in tree.iter() if str(each.tag).endswith("Reference")]
    for each in references:
        parent = each.getparent()
        if parent is not None:
            parent.remove(each)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, data in (_BARE_PARTS | {"word/document.xml": etree.tostring(tree)}).items():
            file.writestr(name, data)
    return made.getvalue()


def _parse(data: bytes) -> "etree._Element":
    tree = etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, recover=True))
    if tree is None or tree.getroottree().docinfo.internalDTD is not None:
        raise ValueError("no XML of Word has a document type")
    return tree


_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_BARE_PARTS = {
    "[Content_Types].xml": (
        f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="xml" ContentType='
        '"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
    ).encode(),
    "_rels/.rels": (
        f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="a" Target="word/document.xml" '
        f'Type="{_RELATIONSHIPS}/officeDocument"/></Relationships>'
    ).encode(),
}
