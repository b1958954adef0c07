"""What goes wrong with knowledge, next to what `contracts.admin_errors` has of every change.

KnowledgeError
├── Disabled             a knowledge base that nothing is to be found in for now
├── Unreadable           a file that is no text to be had
└── EmbedderUnavailable  no embeddings in time
"""


class KnowledgeError(Exception):
    """What was requested cannot be done; the text says why, in words fit to be shown."""


class Disabled(KnowledgeError):  # noqa: N818 - outcomes, named as the API names them
    """`knowledge_base_id` is there, and searched by nobody who answers from it."""

    def __init__(self, knowledge_base_id: str) -> None:
        super().__init__(f"the knowledge base {knowledge_base_id} is disabled")
        self.knowledge_base_id = knowledge_base_id


class Unreadable(KnowledgeError):  # noqa: N818
    """`reason` continues a sentence that begins with the file's name: "is not UTF-8 (byte 0xe9 at 12)"."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} {reason}")
        self.name = name
        self.reason = reason


class EmbedderUnavailable(KnowledgeError):  # noqa: N818
    """What an embedder raises where it gives no embeddings: unreachable, refused, over its limits."""
