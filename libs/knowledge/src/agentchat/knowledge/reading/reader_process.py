"""Read files, as a process with limits: `python -m agentchat.knowledge.reading.reader_process`.

The parent is `read_file`.
"""

import importlib
import logging

import msgspec

from agentchat.knowledge.reading.file_errors import UnreadableFile
from agentchat.runtime.limited_process import limit_resources, serve_requests

MEMORY_BYTES = 1024 * 1024 * 1024


class ReadRequest(msgspec.Struct, frozen=True):
    """A file of a kind, "pdf", "docx" or "xlsx", to be read as HTML or, with `as_text`, as plain text."""

    kind: str
    content: bytes
    as_text: bool = False


class ReadResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The file's HTML or text, or why it could not be read."""

    html: str = ""
    text: str = ""
    problem: str = ""
    warnings: tuple[str, ...] = ()


def main() -> None:
    """Read, convert and answer."""
    limit_resources(MEMORY_BYTES)
    logging.disable()  # libraries warn of every oddity of a file
    serve_requests(
        lambda request: msgspec.msgpack.encode(
            convert_file(msgspec.msgpack.decode(request, type=ReadRequest))
        )
    )


def convert_file(request: ReadRequest) -> ReadResult:
    """Convert the file, or return why it cannot be read."""
    # Imported after the limits are set, and only the one that is needed.
    convert = importlib.import_module(f"agentchat.knowledge.reading.{request.kind}").convert_to_html
    try:
        html, warnings = convert(request.content)
        if request.as_text:
            return ReadResult(text=_render_text(html), warnings=warnings)
        return ReadResult(html=html, warnings=warnings)
    except UnreadableFile as unfit:
        return ReadResult(problem=unfit.reason)
    except MemoryError:
        return ReadResult(problem="takes too much time or memory to be read")
    except Exception:  # noqa: BLE001 - a library may raise anything for a broken file
        return ReadResult(problem="is broken, or of another kind than its name says")


def _render_text(html: str) -> str:
    """Return the text of the sections, each under the headings above it."""
    from agentchat.knowledge.documents.html import parse_html

    parts = []
    for section in parse_html(html).sections:
        parts += [f"## {' > '.join(section.path)}"] if section.path else []
        parts += [section.text]
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
