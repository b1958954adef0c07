"""`python -m agentchat.knowledge.reading.reader pdf|docx`: a file on stdin, a `ReadResult` on stdout.

It bounds itself before it looks at a byte; who started it bounds its time.
"""

import contextlib
import importlib
import logging
import resource
import sys

import msgspec

from agentchat.knowledge.reading.unfit import UnreadableFile

CPU_SECONDS = 20
MEMORY = 1024 * 1024 * 1024

_BROKEN = "is broken, or of another kind than its name says"
_TOO_LARGE = "takes too much time or memory to be read"


class ReadResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was made of the file, or why nothing was."""

    html: str = ""
    problem: str = ""


def main() -> None:
    bound()
    logging.disable()  # of what is odd in a file, nobody wants to know
    sys.stdout.buffer.write(msgspec.json.encode(_answer(sys.argv[1], sys.stdin.buffer.read())))


def bound() -> None:
    """This process has no more from now on."""
    bounds = {
        resource.RLIMIT_CPU: (CPU_SECONDS, CPU_SECONDS + 1),
        resource.RLIMIT_AS: (MEMORY, MEMORY),
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_CORE: (0, 0),
    }
    for kind, bound in bounds.items():
        with contextlib.suppress(ValueError, OSError):  # not every system has each
            resource.setrlimit(kind, bound)


def _answer(kind: str, content: bytes) -> ReadResult:
    # Imported after the bounds, and only the one that is needed.
    made = importlib.import_module(f"agentchat.knowledge.reading.{kind}").html_of
    try:
        return ReadResult(html=made(content))
    except UnreadableFile as unfit:
        return ReadResult(problem=unfit.reason)
    except MemoryError:
        return ReadResult(problem=_TOO_LARGE)
    except Exception:  # noqa: BLE001 - whatever a library makes of bytes that were made to break it
        return ReadResult(problem=_BROKEN)


if __name__ == "__main__":
    main()
