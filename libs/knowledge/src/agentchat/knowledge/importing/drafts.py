"""A document as it is handed in, and as it is cut for the tables (pure)."""

import hashlib
import uuid
from collections import Counter

import msgspec

from agentchat.contracts.admin_errors import Invalid
from agentchat.contracts.text import has_controls
from agentchat.knowledge.documents import Chunk, Kind, chunks_of, parse, plain_title, tidy, web_address
from agentchat.knowledge.search import search_words

MOST_CHARACTERS = 16_000_000
MOST_BYTES = 16 * 1024 * 1024
FILE_KINDS: tuple[Kind, ...] = ("pdf", "docx")
_MOST_NAME = 500
_FORM = "1"
"""Part of every digest: a new number lets unchanged documents be cut again."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A document to import. `name` is its identity in the knowledge base: a path or an address.

    `title` and `url` come before what the document says of itself. `content` is a file of `kind` pdf or docx,
    whose text is made of it when it is imported.
    """

    name: str
    text: str = ""
    kind: Kind = "text"
    content: bytes | None = None
    title: str | None = None
    url: str | None = None


class ChunkRow(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk as its table holds it; the words are those that it is found by."""

    chunk_id: str
    position: int
    title: str
    text: str
    title_words: str
    text_words: str


class CutDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of a document. `characters` is the length of the text that was handed in."""

    document_id: str
    name: str
    title: str
    url: str
    kind: Kind
    digest: bytes
    characters: int
    rows: tuple[ChunkRow, ...]


def checked(draft: Draft) -> Draft:
    """The draft with its name and title as they are kept. Raises Invalid."""
    name = " ".join(draft.name.split())
    if has_controls(name):
        raise Invalid("name", "holds control characters")
    name = " ".join(tidy(name).split())
    if not 1 <= len(name) <= _MOST_NAME:
        raise Invalid("name", f"must have 1 to {_MOST_NAME} characters")
    if len(draft.text) > MOST_CHARACTERS:
        raise Invalid("text", f"is longer than {MOST_CHARACTERS:,} characters")
    if (draft.content is not None) != (draft.kind in FILE_KINDS):
        raise Invalid("content", f"is needed for {' and '.join(FILE_KINDS)}, and for these alone")
    if draft.content is not None and draft.text:
        raise Invalid("text", "is made of the content")
    if draft.content is not None and len(draft.content) > MOST_BYTES:
        raise Invalid("content", f"is larger than {MOST_BYTES // 1024**2} MiB")
    if draft.url and web_address(draft.url) is None:
        raise Invalid("url", "must be an http or https address")
    return msgspec.structs.replace(draft, name=name, title=plain_title(draft.title or ""))


def document_id(knowledge_base_id: str, name: str) -> str:
    """The id of the document of that name: the same whenever it is imported (UUIDv5, RFC 9562)."""
    return str(uuid.uuid5(uuid.UUID(knowledge_base_id), name))


def digest(draft: Draft) -> bytes:
    return hashlib.sha256(
        msgspec.json.encode([_FORM, draft.kind, draft.title, draft.url]) + _bytes(draft)
    ).digest()


def cut(knowledge_base_id: str, draft: Draft) -> CutDocument:
    """Parse a checked draft, whose text is there, and cut it into chunks. Raises Invalid without text in it.

    A chunk's id follows from its document, its title and its text, so that what a change leaves alone
    keeps its id. Takes some seconds for the longest documents: not for the event loop.
    """
    parsed = parse(draft.text, draft.kind)
    title = draft.title or parsed.title or _title_of(draft.name)
    chunks = chunks_of(title, parsed.sections)
    if not chunks:
        raise Invalid("text" if draft.content is None else "content", "holds no text")
    own_id = document_id(knowledge_base_id, draft.name)
    return CutDocument(
        document_id=own_id,
        name=draft.name,
        title=title,
        url=draft.url or parsed.url or "",
        kind=draft.kind,
        digest=digest(draft),
        characters=len(draft.text),
        rows=_rows(own_id, chunks),
    )


def _rows(own_id: str, chunks: list[Chunk]) -> tuple[ChunkRow, ...]:
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
                title_words=search_words.searchable(chunk.title),
                text_words=search_words.searchable(chunk.text),
            )
        )
    return tuple(rows)


def _bytes(draft: Draft) -> bytes:
    return draft.content or draft.text.encode("utf-8", "surrogatepass")


def _title_of(name: str) -> str:
    """The last part of a path or an address, without its ending: `guide/how_to-pay.md` is "how to pay"."""
    last = name.rstrip("/").rpartition("/")[2]
    stem = last.rpartition(".")[0] or last
    return plain_title(stem.replace("_", " ").replace("-", " ")) or name[:1]
