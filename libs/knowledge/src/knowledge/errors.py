"""KnowledgeError
├── NotFound             no such account, knowledge base or document (or another account's)
├── Disabled             a knowledge base that nothing is to be found in for now
├── Conflict             the id is taken
├── Invalid              a field cannot be what it is
├── Unreadable           a file that is no text to be had
└── EmbedderUnavailable  no embeddings in time
"""


class KnowledgeError(Exception):
    """What was asked for cannot be done; the text says why, in words fit to be shown."""


class NotFound(KnowledgeError):  # noqa: N818 - outcomes, named as the API names them
    """`kind` is account, knowledge base or document."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"no such {kind}: {name}")
        self.kind = kind
        self.name = name


class Disabled(KnowledgeError):  # noqa: N818
    """`knowledge_base_id` is there, and searched by nobody who answers from it."""

    def __init__(self, knowledge_base_id: str) -> None:
        super().__init__(f"the knowledge base {knowledge_base_id} is disabled")
        self.knowledge_base_id = knowledge_base_id


class Conflict(KnowledgeError):  # noqa: N818
    """`kind` and `name` are taken."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} exists already: {name}")
        self.kind = kind
        self.name = name


class Invalid(KnowledgeError):  # noqa: N818
    """`field` is the argument's name."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class Unreadable(KnowledgeError):  # noqa: N818
    """`reason` goes on from the file's name: "is not UTF-8 (byte 0xe9 at 12)"."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} {reason}")
        self.name = name
        self.reason = reason


class EmbedderUnavailable(KnowledgeError):  # noqa: N818
    """What an embedder raises where it gives no embeddings: unreachable, refused, over its limits."""
