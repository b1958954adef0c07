"""Files as drafts: which there are, what each one is, and why one cannot be read."""

import codecs
import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from agentchat.knowledge.documents import Kind, tidy
from agentchat.knowledge.errors import Unreadable
from agentchat.knowledge.importing.drafts import FILE_KINDS, MOST_BYTES, Draft

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
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class FoundFile(msgspec.Struct, frozen=True):
    """A file by the name that its document gets: its path from a folder on, the folder's own name first.

    That is "docs/guide/pay.md" for a file in the folder `docs`.

    `content` is there already for what was piped in; `reason` for what is not to be read.
    """

    name: str
    path: Path | None = None
    content: bytes | None = None
    reason: str | None = None


def find(paths: Iterable[Path], within: Path | None = None) -> Iterator[FoundFile]:
    """The files named, and those in the folders named, each folder in the order of its names.

    Names begin with the folder `within`, which has to hold all of them; without it with the folder that is
    imported, of a file that is named alone with the one that it is in: so its name is the same either way.

    In folders hidden files are left out, files of other kinds are reported with a reason, and links to
    folders are not followed. A file that is named is taken as text whatever its ending.
    """
    seen: set[str] = set()
    for path in paths:
        for found in _below(path, within) if path.is_dir() else [_named(path, within)]:
            if found.reason is None and found.name in seen:
                yield msgspec.structs.replace(found, reason="has the name of another file of this import")
            else:
                seen.add(found.name)
                yield found


def piped(stream: BinaryIO, name: str) -> FoundFile:
    """Standard input as a file; `name` says what it is, by its ending, and which document."""
    return FoundFile(name, content=stream.read(MOST_BYTES + 1))


def draft_of(found: FoundFile) -> Draft:
    """The file's content; of a PDF or DOCX as it is. Raises Unreadable."""
    if found.reason is not None:
        raise Unreadable(found.name, found.reason)
    kind = KINDS.get(Path(found.name).suffix.lower(), "text")
    if kind in FILE_KINDS:
        return Draft(name=found.name, kind=kind, content=_content(found))
    text = _decoded(found.name, _content(found), is_html=kind == "html")
    return Draft(name=found.name, text=text, kind=kind)


def _named(path: Path, within: Path | None) -> FoundFile:
    name = _from(within or path.parent, path.parent)
    if name is None:
        return FoundFile(_name(path.name), reason=f"is not in the folder {within}")
    return FoundFile(_name((name / path.name).as_posix()), path=path)


def _below(folder: Path, within: Path | None) -> Iterator[FoundFile]:
    """A folder that cannot be listed is reported as one that cannot be read."""
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
                yield _in_folder(Path(current, name), (below / name).as_posix())
    for error in failed:
        yield FoundFile(_name(str(error.filename)), reason=_why(error))


def _from(first: Path, folder: Path) -> Path | None:
    """The way to `folder`, the name of the folder `first` at its head; None where it does not lie below."""
    start, end = first.resolve(), folder.resolve()
    return start.name / end.relative_to(start) if end.is_relative_to(start) else None


def _in_folder(path: Path, name: str) -> FoundFile:
    if path.suffix.lower() not in KINDS:
        return FoundFile(_name(name), reason=f"is of another kind than {', '.join(KINDS)}")
    return FoundFile(_name(name), path=path)


def _content(found: FoundFile) -> bytes:
    """All of it, and never more than the bound is held in memory."""
    content = found.content
    if content is None:
        assert found.path is not None
        try:
            if not found.path.is_file():
                raise Unreadable(found.name, "is no file" if found.path.exists() else "does not exist")
            with found.path.open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise Unreadable(found.name, _why(error)) from None
    if len(content) > MOST_BYTES:
        raise Unreadable(found.name, f"is larger than {MOST_BYTES // 1024**2} MiB")
    return content


def _decoded(name: str, content: bytes, *, is_html: bool) -> str:
    """Decode by the byte order mark, as UTF-8, or as an HTML file says itself. Raises Unreadable."""
    encoding = "utf-16" if content.startswith(_UTF_16) else "utf-8-sig"
    if encoding != "utf-16" and b"\0" in content:
        raise Unreadable(name, f"is no text: it holds a NUL byte (at {content.index(0)})")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        declared = _CHARSET.search(content, 0, 2048) if is_html else None
        if declared is not None:
            with contextlib.suppress(LookupError):
                return content.decode(declared[1].decode(), "replace")
        shown = "UTF-16" if encoding == "utf-16" else "UTF-8"
        byte = content[error.start]
        raise Unreadable(name, f"is not {shown} (byte 0x{byte:02x} at {error.start})") from None


def _name(path: str) -> str:
    """A name that can be stored: file names may hold any byte."""
    return " ".join(tidy(path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")).split())


def _why(error: OSError) -> str:
    return f"cannot be read: {error.strerror or error}"
