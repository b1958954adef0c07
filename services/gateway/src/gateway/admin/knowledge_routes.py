"""The addresses of knowledge bases and their documents."""

from administration import documents, knowledge
from administration.values import (
    Chunk,
    Deletion,
    Document,
    DocumentBody,
    KnowledgeBase,
    KnowledgeBaseChanges,
    NewDocument,
    NewKnowledgeBase,
    PutDocument,
)
from gateway.admin.route import PAGING, Nothing, Route
from knowledge.passages import Passage

MAX_DOCUMENT_BYTES = 4 * 1024 * 1024
_BASE = "/knowledge_bases/{knowledge_base_id}"

_KNOWLEDGE = (
    Route(
        method="POST",
        path="/knowledge_bases",
        summary="Make a knowledge base.",
        body=NewKnowledgeBase,
        status=201,
        gives=KnowledgeBase,
        conflicts=True,
        answer=lambda admin, asked: knowledge.create(admin, asked.body),
    ),
    Route(
        method="GET",
        path="/knowledge_bases",
        summary="List the knowledge bases, all or one account's.",
        query=("account_id", *PAGING),
        gives=KnowledgeBase,
        paged=True,
        answer=lambda admin, asked: knowledge.page(admin, asked.query.get("account_id"), **asked.paging),
    ),
    Route(
        method="GET",
        path=_BASE,
        summary="Get a knowledge base.",
        gives=KnowledgeBase,
        answer=lambda admin, asked: knowledge.get(admin, asked.path["knowledge_base_id"]),
    ),
    Route(
        method="PATCH",
        path=_BASE,
        summary="Rename a knowledge base, disable or enable it.",
        body=KnowledgeBaseChanges,
        gives=KnowledgeBase,
        answer=lambda admin, asked: knowledge.change(admin, asked.path["knowledge_base_id"], asked.body),
    ),
    Route(
        method="DELETE",
        path=_BASE,
        summary="Delete a knowledge base with its documents; with force also where agents answer from it.",
        body=Nothing,
        optional=True,
        query=("force", "dry_run"),
        gives=Deletion,
        conflicts=True,
        answer=lambda admin, asked: knowledge.delete(admin, asked.path["knowledge_base_id"], **asked.flags),
    ),
    Route(
        method="GET",
        path=f"{_BASE}/search",
        summary="Find the passages that an agent would be given, in a disabled one too.",
        query=("query", "top_k"),
        gives=tuple[Passage, ...],
        answer=lambda admin, asked: knowledge.search(
            admin, asked.path["knowledge_base_id"], asked.needed("query"), asked.query.get("top_k", 5)
        ),
    ),
)

_DOCUMENTS = (
    Route(
        method="POST",
        path=f"{_BASE}/documents",
        summary="Add a document, or replace the one of its name (200); the same content changes nothing.",
        body=NewDocument,
        max_bytes=MAX_DOCUMENT_BYTES,
        status=201,
        gives=PutDocument,
        answer=lambda admin, asked: documents.put(admin, asked.path["knowledge_base_id"], asked.body),
    ),
    Route(
        method="GET",
        path=f"{_BASE}/documents",
        summary="List a knowledge base's documents by name.",
        query=PAGING,
        gives=Document,
        paged=True,
        answer=lambda admin, asked: documents.page(admin, asked.path["knowledge_base_id"], **asked.paging),
    ),
    Route(
        method="GET",
        path=f"{_BASE}/documents/{{document_id}}",
        summary="Get a document.",
        gives=Document,
        answer=lambda admin, asked: documents.get(
            admin, asked.path["knowledge_base_id"], asked.path["document_id"]
        ),
    ),
    Route(
        method="PUT",
        path=f"{_BASE}/documents/{{document_id}}",
        summary="Give a document other content.",
        body=DocumentBody,
        max_bytes=MAX_DOCUMENT_BYTES,
        gives=PutDocument,
        answer=lambda admin, asked: documents.replace(
            admin, asked.path["knowledge_base_id"], asked.path["document_id"], asked.body
        ),
    ),
    Route(
        method="DELETE",
        path=f"{_BASE}/documents/{{document_id}}",
        summary="Delete a document with its passages.",
        body=Nothing,
        optional=True,
        query=("dry_run",),
        gives=Deletion,
        answer=lambda admin, asked: documents.delete(
            admin, asked.path["knowledge_base_id"], asked.path["document_id"], **asked.flags
        ),
    ),
    Route(
        method="GET",
        path=f"{_BASE}/documents/{{document_id}}/chunks",
        summary="List the passages that a document was cut into.",
        query=PAGING,
        gives=Chunk,
        paged=True,
        answer=lambda admin, asked: documents.chunks(
            admin, asked.path["knowledge_base_id"], asked.path["document_id"], **asked.paging
        ),
    ),
)

ROUTES = (*_KNOWLEDGE, *_DOCUMENTS)
