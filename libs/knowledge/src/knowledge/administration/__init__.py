"""What is managed by hand: knowledge bases, and the documents in them. Each change leaves an audit row.

The functions take an open connection, and each change is one transaction; they raise KnowledgeError. Another
account's knowledge base or document is not found.
"""

from knowledge.administration.bases import (
    KnowledgeBase,
    account_of,
    create_knowledge_base,
    delete_knowledge_base,
    find_knowledge_base,
    keep_knowledge_base,
    knowledge_bases_after,
    languages,
    list_knowledge_bases,
    lock_knowledge_base,
    rename_knowledge_base,
    set_knowledge_base_disabled,
)
from knowledge.administration.documents import (
    Document,
    delete_document,
    find_document,
    list_chunks,
    list_documents,
)

__all__ = [
    "Document",
    "KnowledgeBase",
    "account_of",
    "create_knowledge_base",
    "delete_document",
    "delete_knowledge_base",
    "find_document",
    "find_knowledge_base",
    "keep_knowledge_base",
    "knowledge_bases_after",
    "languages",
    "list_chunks",
    "list_documents",
    "list_knowledge_bases",
    "lock_knowledge_base",
    "rename_knowledge_base",
    "set_knowledge_base_disabled",
]
