"""Parse text, Markdown and HTML into sections and cut sections into chunks.

Pure: the same text gives the same chunks, in time proportional to its length.
"""

from typing import Literal, assert_never

from agentchat.knowledge.documents.chunks import Chunk, cut_chunks
from agentchat.knowledge.documents.markdown import parse_markdown
from agentchat.knowledge.documents.sections import (
    Parsed,
    Section,
    clean_title,
    parse_web_address,
    tidy,
    trim_lines,
)

__all__ = [
    "Chunk",
    "Kind",
    "Parsed",
    "Section",
    "clean_title",
    "cut_chunks",
    "parse",
    "parse_web_address",
    "tidy",
]

Kind = Literal["text", "markdown", "html", "pdf", "docx"]
"""The format of a text. Text of pdf and docx is the HTML that `knowledge.reading` makes of the file."""


def parse(text: str, kind: Kind) -> Parsed:
    """Return the sections of a document; none if it has no text. Every text can be parsed as every kind."""
    match kind:
        case "text":
            kept = trim_lines(tidy(text))
            return Parsed(None, None, (Section((), kept),) if kept else ())
        case "markdown":
            return parse_markdown(tidy(text))
        case "html" | "pdf" | "docx":
            from agentchat.knowledge.documents.html import (
                parse_html,  # lxml: 1 MiB, which most processes never need
            )

            return parse_html(text)
        case _:
            assert_never(kind)
