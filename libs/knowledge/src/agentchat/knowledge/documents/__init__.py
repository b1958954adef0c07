"""Documents made into chunks: text, Markdown and HTML parsed into sections, sections cut into passages.

Pure: the same text gives the same chunks, and costs time in proportion to its length.
"""

from typing import Literal, assert_never

from agentchat.knowledge.documents.chunks import Chunk, chunks_of
from agentchat.knowledge.documents.markdown import parse_markdown
from agentchat.knowledge.documents.sections import Parsed, Section, plain_title, tidy, trimmed, web_address

__all__ = [
    "Chunk",
    "Kind",
    "Parsed",
    "Section",
    "chunks_of",
    "parse",
    "plain_title",
    "tidy",
    "web_address",
]

Kind = Literal["text", "markdown", "html", "pdf", "docx"]
"""Of the last two the text is the HTML that `knowledge.reading` makes of a file."""


def parse(text: str, kind: Kind) -> Parsed:
    """The sections of a document, empty where it holds no text. Every text can be parsed as every kind."""
    match kind:
        case "text":
            kept = trimmed(tidy(text))
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
