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
    """A file of a kind, "pdf" or "docx"."""

    kind: str
    content: bytes


class ReadResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The file's text, or why it could not be read."""

    html: str = ""
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
    """Convert the file to HTML, or return why it cannot be read."""
    # Imported after the limits are set, and only the one that is needed.
    convert = importlib.import_module(f"agentchat.knowledge.reading.{request.kind}").convert_to_html
    try:
        html, warnings = convert(request.content)
        return ReadResult(html=html, warnings=warnings)
    except UnreadableFile as unfit:
        return ReadResult(problem=unfit.reason)
    except MemoryError:
        return ReadResult(problem="takes too much time or memory to be read")
    except Exception:  # noqa: BLE001 - a library may raise anything for a broken file
        return ReadResult(problem="is broken, or of another kind than its name says")


if __name__ == "__main__":
    main()
