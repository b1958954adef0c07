"""Convert a file in a separate process, which is ended in time."""

import asyncio
import contextlib
import os
import sys

import msgspec

from agentchat.knowledge.reading.file_errors import ConvertedFile, UnreadableFile
from agentchat.knowledge.reading.reader_process import ReadResult

SECONDS = 60.0
_ENVIRONMENT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL")
_TOO_MUCH = "takes too much time or memory to be read"


async def convert_file(content: bytes, kind: str) -> ConvertedFile:
    """Return the text of a file of kind "pdf" or "docx" as HTML. Raises UnreadableFile."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agentchat.knowledge.reading.reader_process", kind),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
    )
    try:
        async with asyncio.timeout(SECONDS):
            output, _ = await process.communicate(content)
    except TimeoutError:
        raise UnreadableFile(_TOO_MUCH) from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    try:
        answer = msgspec.json.decode(output, type=ReadResult)
    except msgspec.DecodeError:
        raise UnreadableFile(_TOO_MUCH) from None  # one of its limits ended it
    if answer.problem:
        raise UnreadableFile(answer.problem)
    return ConvertedFile(answer.html, answer.warnings)
