"""Define a document before its import, and cut it into the rows of the tables. Pure."""

import hashlib
import uuid
from collections import Counter

import msgspec

from agentchat.contracts.admin_errors import Invalid
from agentchat.contracts.text_checks import has_controls
from agentchat.knowledge.documents import Chunk, Kind, clean_title, cut_chunks, parse, parse_web_address, tidy
from agentchat.knowledge.reading.file_errors import MOST_CHARACTERS
from agentchat.knowledge.search import search_words

MOST_BYTES = 16 * 1024 * 1024
FILE_KINDS: tuple[Kind, ...] = ("pdf", "docx")
_MOST_NAME = 500
_FORM = "3"
"""Part of every digest: a new number makes the next import cut unchanged documents again."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A document to import. `name` identifies it in the knowledge base: a path or an address.

    `title` and `url` take precedence over what the document states itself. `content` is a file of `kind` pdf
    or docx, which is converted to text when it is imported. `warnings` say what of
    the file was not read.
    """

    name: str
    text: str = ""
    kind: Kind = "text"
    content: bytes | None = None
    title: str | None = None
    url: str | None = None
    warnings: tuple[str, ...] = ()


class ChunkRow(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk as its table holds it. The words are those by which it is found."""

    chunk_id: str
    position: int
    title: str
    text: str
    title_words: str
    text_words: str


class CutDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document as it is stored. `characters` is the length of the imported text."""

    document_id: str
    name: str
    title: str
    url: str
    kind: Kind
    digest: bytes
    characters: int
    rows: tuple[ChunkRow, ...]


def check_draft(draft: Draft) -> Draft:
    """Return the draft with its name and title as they are stored. Raises Invalid."""
    name = " ".join(draft.name.split())
    if has_controls(name):
        raise Invalid("name", "holds control characters")
    name = " ".join(tidy(name).split())
    if not 1 <= len(name) <= _MOST_NAME:
        raise Invalid("name", f"must have 1 to {_MOST_NAME} characters")
    if len(draft.text) > MOST_CHARACTERS:
        raise Invalid("text", f"is longer than {MOST_CHARACTERS:,} characters")
    if (draft.content is not None) != (draft.kind in FILE_KINDS):
        raise Invalid("content", f"is needed for {' and '.join(FILE_KINDS)}, and only for these")
    if draft.content is not None and draft.text:
        raise Invalid("text", "is made of the content")
    if draft.content is not None and len(draft.content) > MOST_BYTES:
        raise Invalid("content", f"is larger than {MOST_BYTES // 1024**2} MiB")
    if draft.url and parse_web_address(draft.url) is None:
        raise Invalid("url", "must be an http or https address")
    return msgspec.structs.replace(draft, name=name, title=clean_title(draft.title or ""))


def derive_document_id(knowledge_base_id: str, name: str) -> str:
    """Return the id of the document of that name, always the same (UUIDv5, RFC 9562)."""
    return str(uuid.uuid5(uuid.UUID(knowledge_base_id), name))


def digest(draft: Draft) -> bytes:
    """Return the hash by which an unchanged document is recognised."""
    return hashlib.sha256(
        msgspec.json.encode([_FORM, draft.kind, draft.title, draft.url]) + _get_bytes(draft)
    ).digest()


def cut(knowledge_base_id: str, draft: Draft) -> CutDocument:
    """Parse a checked draft that has its text, and cut it into chunks. Raises Invalid if it has no text.

    A chunk's id is derived from its document, title and text, so that unchanged chunks keep their ids. Takes
    some seconds for the longest documents: do not call it on the event loop.
    """
    parsed = parse(draft.text, draft.kind)
    title = draft.title or parsed.title or _derive_title(draft.name)
    chunks = cut_chunks(title, parsed.sections)
    if not chunks:
        raise Invalid("text" if draft.content is None else "content", "holds no text")
    own_id = derive_document_id(knowledge_base_id, draft.name)
    return CutDocument(
        document_id=own_id,
        name=draft.name,
        title=title,
        url=draft.url or parsed.url or "",
        kind=draft.kind,
        digest=digest(draft),
        characters=len(draft.text),
        rows=_build_rows(own_id, chunks),
    )


def _build_rows(own_id: str, chunks: list[Chunk]) -> tuple[ChunkRow, ...]:
    namespace, seen = uuid.UUID(own_id), Counter[tuple[str, str]]()
    rows = []
    for chunk in chunks:
        seen[chunk.title, chunk.text] += 1
        count = seen[chunk.title, chunk.text]
        rows.append(
            ChunkRow(
                chunk_id=str(uuid.uuid5(namespace, f"{count}\n{chunk.title}\n{chunk.text}")),
                position=chunk.position,
                title=chunk.title,
                text=chunk.text,
                title_words=search_words.make_searchable(chunk.title),
                text_words=search_words.make_searchable(chunk.text),
            )
        )
    return tuple(rows)


def _get_bytes(draft: Draft) -> bytes:
    return draft.content or draft.text.encode("utf-8", "surrogatepass")


def _derive_title(name: str) -> str:
    """Return the last part of a path or address without its ending: `guide/how_to-pay.md` is "how to pay"."""
    last = name.rstrip("/").rpartition("/")[2]
    stem = last.rpartition(".")[0] or last
    return clean_title(stem.replace("_", " ").replace("-", " ")) or name[:1]
