"""Define the errors of knowledge bases, next to those of every change (`contracts.admin_errors`).

KnowledgeError ├── Disabled             the knowledge base is disabled ├── Unreadable           a file has no
text that can be read └── EmbedderUnavailable  no embeddings in time
"""


class KnowledgeError(Exception):
    """A request cannot be fulfilled. The text says why and can be shown."""


class Disabled(KnowledgeError):  # noqa: N818 - outcomes, named as the API names them
    """The knowledge base exists but is disabled for answering."""

    def __init__(self, knowledge_base_id: str) -> None:
        super().__init__(f"the knowledge base {knowledge_base_id} is disabled")
        self.knowledge_base_id = knowledge_base_id


class Unreadable(KnowledgeError):  # noqa: N818
    """A file cannot be read.

    `reason` continues a sentence that begins with the file's name: "is not UTF-8 (byte 0xe9 at 12)".
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} {reason}")
        self.name = name
        self.reason = reason


class EmbedderUnavailable(KnowledgeError):  # noqa: N818
    """The embedder gave no embeddings: it is unreachable, refused, or over its limits."""
