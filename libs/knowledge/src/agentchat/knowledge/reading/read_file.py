"""Convert a file in a separate process, which is ended in time."""

import contextlib

import msgspec

from agentchat.knowledge.reading.file_errors import ConvertedFile, UnreadableFile
from agentchat.knowledge.reading.reader_process import ReadRequest, ReadResult
from agentchat.runtime.limited_process import LimitedProcess, ProcessEnded

CPU_SECONDS = 20.0
_PATIENCE_SECONDS = 60.0


async def convert_file(content: bytes, kind: str) -> ConvertedFile:
    """Return the text of a file of kind "pdf" or "docx" as HTML. Raises UnreadableFile."""
    process = LimitedProcess("agentchat.knowledge.reading.reader_process", patience_seconds=_PATIENCE_SECONDS)
    async with contextlib.aclosing(process):
        try:
            answer = await process.ask(msgspec.msgpack.encode(ReadRequest(kind, content)), CPU_SECONDS)
        except ProcessEnded:
            raise UnreadableFile("takes too much time or memory to be read") from None
    result = msgspec.msgpack.decode(answer, type=ReadResult)
    if result.problem:
        raise UnreadableFile(result.problem)
    return ConvertedFile(result.html, result.warnings)
