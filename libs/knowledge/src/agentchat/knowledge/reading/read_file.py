"""A file read by a process next to this one, which is started for it and ended in time."""

import asyncio
import contextlib
import os
import sys

import msgspec

from agentchat.knowledge.reading.reader import ReadResult
from agentchat.knowledge.reading.unfit import UnreadableFile

SECONDS = 60.0
_ENVIRONMENT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL")
_TOO_MUCH = "takes too much time or memory to be read"


async def html_of(content: bytes, kind: str) -> str:
    """The text of a file of that kind, "pdf" or "docx". Raises UnreadableFile."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agentchat.knowledge.reading.reader", kind),
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
        raise UnreadableFile(_TOO_MUCH) from None  # it was ended by one of its bounds
    if answer.problem:
        raise UnreadableFile(answer.problem)
    return answer.html
