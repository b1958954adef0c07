"""Find files, decode them and turn them into drafts, or say why one cannot be read."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
import webencodings

from agentchat.contracts.text_checks import convert_to_utf8, is_wide
from agentchat.knowledge.documents import Kind, tidy
from agentchat.knowledge.errors import Unreadable
from agentchat.knowledge.importing.document_drafts import FILE_KINDS, MOST_BYTES, Draft

KINDS: dict[str, Kind] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".txt": "text",
    ".text": "text",
    ".rst": "text",
    ".adoc": "text",
    ".pdf": "pdf",
    ".docx": "docx",
}
_CHARSET = re.compile(rb"<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*[\"']?([\w.:-]{1,40})", re.I)
_HTML_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_PRESCAN_BYTES = 4096
_REFUSED = "replacement"
"""The name of encodings that browsers refuse to read, such as ISO-2022-KR."""
_ASCII_SUPERSETS_IN_ESCAPES = ("iso-2022-jp", _REFUSED)
"""Encodings whose bytes are valid UTF-8 whatever they mean."""


class FoundFile(msgspec.Struct, frozen=True):
    """A file with the name that its document gets: its path from a folder on, that folder's name first.

    A file in the folder `docs` gets a name like "docs/guide/pay.md". `content` is set for piped input;
    `reason` says why a file is not read.
    """

    name: str
    path: Path | None = None
    content: bytes | None = None
    reason: str | None = None


def find_files(paths: Iterable[Path], within: Path | None = None) -> Iterator[FoundFile]:
    """Yield the named files, and those in the named folders, each folder in the order of its names.

    Names begin with the folder `within`, which must hold all of them. Without it they begin with the imported
    folder, or for a single file with the folder it is in, so that the name is the same either way.

    In folders, hidden files are skipped, files of other kinds are reported with a reason, and links to
    folders are not followed. A file that is named is read as text whatever its ending.
    """
    seen: set[str] = set()
    for path in paths:
        for found in _find_below(path, within) if path.is_dir() else [_find_named(path, within)]:
            if found.reason is None and found.name in seen:
                yield msgspec.structs.replace(found, reason="has the name of another file of this import")
            else:
                seen.add(found.name)
                yield found


def read_piped(stream: BinaryIO, name: str) -> FoundFile:
    """Read standard input as a file. `name` gives its kind, by its ending, and names the document."""
    return FoundFile(name, content=stream.read(MOST_BYTES + 1))


def read_draft(found: FoundFile) -> Draft:
    """Read a file into a draft; a PDF or DOCX is kept as it is. Raises Unreadable."""
    if found.reason is not None:
        raise Unreadable(found.name, found.reason)
    kind = KINDS.get(Path(found.name).suffix.lower(), "text")
    if kind in FILE_KINDS:
        return Draft(name=found.name, kind=kind, content=_read_content(found))
    text, warnings = _decode(found.name, _read_content(found), is_html=kind == "html")
    return Draft(name=found.name, text=text, kind=kind, warnings=warnings)


def _find_named(path: Path, within: Path | None) -> FoundFile:
    name = _from(within or path.parent, path.parent)
    if name is None:
        return FoundFile(_name(path.name), reason=f"is not in the folder {within}")
    return FoundFile(_name((name / path.name).as_posix()), path=path)


def _find_below(folder: Path, within: Path | None) -> Iterator[FoundFile]:
    """Yield the files below a folder. A folder that cannot be listed is reported like an unreadable file."""
    start = _from(within or folder, folder)
    if start is None:
        yield FoundFile(_name(str(folder)), reason=f"is not in the folder {within}")
        return
    failed: list[OSError] = []
    for current, folders, files in os.walk(folder, onerror=failed.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = start / Path(current).relative_to(folder)
        for name in sorted(files):
            if not name.startswith("."):
                yield _find_in_folder(Path(current, name), (below / name).as_posix())
    for error in failed:
        yield FoundFile(_name(str(error.filename)), reason=_explain(error))


def _from(first: Path, folder: Path) -> Path | None:
    """Return the path from `first`, whose name comes first, to `folder`; None if it does not lie below."""
    start, end = first.resolve(), folder.resolve()
    return start.name / end.relative_to(start) if end.is_relative_to(start) else None


def _find_in_folder(path: Path, name: str) -> FoundFile:
    if path.suffix.lower() not in KINDS:
        return FoundFile(_name(name), reason=f"is of another kind than {', '.join(KINDS)}")
    return FoundFile(_name(name), path=path)


def _read_content(found: FoundFile) -> bytes:
    """Read a file, never more than the limit into memory."""
    content = found.content
    if content is None:
        assert found.path is not None
        try:
            if not found.path.is_file():
                raise Unreadable(found.name, "is no file" if found.path.exists() else "does not exist")
            with found.path.open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise Unreadable(found.name, _explain(error)) from None
    if len(content) > MOST_BYTES:
        raise Unreadable(found.name, f"is larger than {MOST_BYTES // 1024**2} MiB")
    return content


def _decode(name: str, content: bytes, *, is_html: bool) -> tuple[str, tuple[str, ...]]:
    """Decode by the byte order mark, as UTF-8, or as an HTML file declares; return the text and warnings.

    Declared names mean what browsers take them for (WHATWG's Encoding Standard). Raises Unreadable.
    """
    wide = is_wide(content)
    if not wide and b"\0" in content:
        raise Unreadable(name, f"is no text: it holds a NUL byte (at {content.index(0)})")
    declared = _find_declared(content) if is_html and not wide else None
    if declared is not None and declared.name in _ASCII_SUPERSETS_IN_ESCAPES and b"\x1b" in content:
        return _decode_declared(name, content, declared)
    try:
        return convert_to_utf8(content).decode(), ()
    except UnicodeDecodeError as error:
        if declared is not None:
            return _decode_declared(name, content, declared)
        shown = "UTF-16" if wide else "UTF-8"
        byte = error.object[error.start]
        raise Unreadable(name, f"is not {shown} (byte 0x{byte:02x} at {error.start})") from None


def _find_declared(content: bytes) -> "webencodings.Encoding | None":
    declared = _CHARSET.search(_HTML_COMMENT.sub(b"", content[:_PRESCAN_BYTES]))
    found = webencodings.lookup(declared[1].decode("ascii", "replace")) if declared else None
    if found is not None and found.name.startswith("utf-16"):
        return webencodings.UTF8  # the declaration could not be read if it were true
    return found


def _decode_declared(
    name: str, content: bytes, declared: "webencodings.Encoding"
) -> tuple[str, tuple[str, ...]]:
    if declared.name == _REFUSED:
        raise Unreadable(name, "declares an encoding that cannot be read; save it as UTF-8")
    encoding = "gb18030" if declared.name == "gbk" else declared
    text, _ = webencodings.decode(content, encoding, errors="replace")
    replaced = text.count("\ufffd")
    if not replaced:
        return text, ()
    places = "1 place is" if replaced == 1 else f"{replaced:,} places are"
    return text, (f"{places} not {declared.name}, as the file declares, and became U+FFFD",)


def _name(path: str) -> str:
    """Return a name that can be stored: file names may hold any byte."""
    return " ".join(tidy(path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")).split())


def _explain(error: OSError) -> str:
    return f"cannot be read: {error.strerror or error}"
