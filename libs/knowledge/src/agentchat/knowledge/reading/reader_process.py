"""Read a file on stdin and write a `ReadResult` to stdout: `python -m ….reader_process pdf|docx`.

The process limits its own resources before it reads a byte; its parent limits its time.
"""

import contextlib
import importlib
import logging
import resource
import sys

import msgspec

from agentchat.knowledge.reading.file_errors import UnreadableFile

CPU_SECONDS = 20
MEMORY = 1024 * 1024 * 1024

_BROKEN = "is broken, or of another kind than its name says"
_TOO_LARGE = "takes too much time or memory to be read"


class ReadResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The file's text, or why it could not be read."""

    html: str = ""
    problem: str = ""
    warnings: tuple[str, ...] = ()


def main() -> None:
    """Read, convert and answer."""
    limit_resources()
    logging.disable()  # libraries warn of every oddity of a file
    sys.stdout.buffer.write(msgspec.json.encode(_answer(sys.argv[1], sys.stdin.buffer.read())))


def limit_resources() -> None:
    """Limit this process's CPU time and memory, and forbid it to write files."""
    bounds = {
        resource.RLIMIT_CPU: (CPU_SECONDS, CPU_SECONDS + 1),
        resource.RLIMIT_AS: (MEMORY, MEMORY),
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_CORE: (0, 0),
    }
    for kind, bound in bounds.items():
        with contextlib.suppress(ValueError, OSError):  # some systems lack some of them
            resource.setrlimit(kind, bound)


def _answer(kind: str, content: bytes) -> ReadResult:
    # Imported after the limits are set, and only the one that is needed.
    made = importlib.import_module(f"agentchat.knowledge.reading.{kind}").convert_to_html
    try:
        html, warnings = made(content)
        return ReadResult(html=html, warnings=warnings)
    except UnreadableFile as unfit:
        return ReadResult(problem=unfit.reason)
    except MemoryError:
        return ReadResult(problem=_TOO_LARGE)
    except Exception:  # noqa: BLE001 - a library may raise anything for a broken file
        return ReadResult(problem=_BROKEN)


if __name__ == "__main__":
    main()
