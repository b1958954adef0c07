"""Convert a DOCX file with its headings, lists and tables by mammoth; without pictures.

mammoth refuses a file for one missing reference, so a broken file is repaired and tried again.
"""

import io
import posixpath
import zipfile
from collections.abc import Callable

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
_PARTS = ("document", "footnotes", "endnotes", "comments")
_LEFT_OUT = "links or pictures whose targets are missing in the file were left out"
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
    for repair, warning in ((None, ()), (_remove_dangling, (_LEFT_OUT,)), (_keep_text, (_BARE,))):
        try:
            repaired = content if repair is None else repair(content)
            return _call_mammoth(repaired), warning
        except MemoryError:
            raise
        except Exception:
            if repair is _keep_text:
                raise
    raise AssertionError


def _call_mammoth(content: bytes) -> str:
    html: str = mammoth.convert_to_html(io.BytesIO(content), convert_image=lambda _: []).value
    return html


def _remove_dangling(content: bytes) -> bytes:
    """Remove references to relationships that do not exist, or whose part is missing."""
    changed: dict[str, bytes] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        present = set(file.namelist())
        for part in (f"word/{name}.xml" for name in _PARTS):
            if part not in present:
                continue
            known = _list_relationships(file, part, present)
            tree = _parse(file.read(part))
            for element in tree.iter():
                for name, value in element.attrib.items():
                    if str(name).startswith(f"{{{_RELATIONSHIPS}}}") and value not in known:
                        del element.attrib[name]
            changed[part] = etree.tostring(tree)
    return _rewrite(content, changed, keep=lambda _: True)


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
    return _rewrite(content, _BARE_PARTS | {"word/document.xml": etree.tostring(tree)}, keep=lambda _: False)


def _list_relationships(file: zipfile.ZipFile, part: str, present: set[str]) -> set[str]:
    folder, _, name = part.rpartition("/")
    path = f"{folder}/_rels/{name}.rels"
    if path not in present:
        return set()
    known = set()
    for each in _parse(file.read(path)):
        target = each.get("Target", "")
        is_there = each.get("TargetMode") == "External" or bool(
            {target.lstrip("/"), posixpath.normpath(f"{folder}/{target}")} & present
        )
        if is_there:
            known.add(each.get("Id", ""))
    return known


def _parse(data: bytes) -> "etree._Element":
    tree = etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, recover=True))
    if tree is None or tree.getroottree().docinfo.internalDTD is not None:
        raise ValueError("no XML of Word has a document type")
    return tree


def _rewrite(content: bytes, changed: dict[str, bytes], keep: Callable[[str], bool]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as file, zipfile.ZipFile(made, "w") as copy:
        for name in file.namelist():
            if name not in changed and keep(name):
                copy.writestr(name, file.read(name))
        for name, data in changed.items():
            copy.writestr(name, data)
    return made.getvalue()


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
