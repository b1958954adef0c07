"""Convert a file in a separate process, which is ended in time."""

import contextlib

import msgspec

from agentchat.knowledge.reading.file_errors import ConvertedFile, UnreadableFile
from agentchat.knowledge.reading.reader_process import ReadRequest, ReadResult
from agentchat.runtime.limited_process import LimitedProcess, ProcessEnded

CPU_SECONDS = 20.0
_PATIENCE_SECONDS = 60.0

TEXT_VERSION = 2
"""The version of what `extract_text` returns, so that texts can be stored: count it up after a change."""

MOST_TEXT = 200_000
"""Characters of a file's text that a model gets, about 50,000 tokens."""

_OFFICE = "application/vnd.openxmlformats-officedocument"
_KINDS = {
    "application/pdf": "pdf",
    f"{_OFFICE}.wordprocessingml.document": "docx",
    f"{_OFFICE}.spreadsheetml.sheet": "xlsx",
}


async def convert_file(content: bytes, kind: str) -> ConvertedFile:
    """Return the text of a file of kind "pdf", "docx" or "xlsx" as HTML. Raises UnreadableFile."""
    result = await _ask(ReadRequest(kind, content))
    return ConvertedFile(result.html, result.warnings)


async def extract_text(content: bytes, media_type: str) -> str:
    """Return a file's text as a model gets it, always the same for the same bytes and TEXT_VERSION.

    Pages of a PDF and sheets of a workbook are headings. Notes in brackets say what is missing, or why the
    file cannot be read. Files of other media types are text in UTF-8.
    """
    kind = _KINDS.get(media_type)
    if kind is None:
        return _cut(content.decode(errors="replace"))
    try:
        result = await _ask(ReadRequest(kind, content, as_text=True))
    except UnreadableFile as unfit:
        return f"[the file {unfit.reason}]"
    return "\n\n".join((_cut(result.text), *(f"[{warning}]" for warning in result.warnings)))


async def _ask(request: ReadRequest) -> ReadResult:
    process = LimitedProcess("agentchat.knowledge.reading.reader_process", patience_seconds=_PATIENCE_SECONDS)
    async with contextlib.aclosing(process):
        try:
            answer = await process.ask(msgspec.msgpack.encode(request), CPU_SECONDS)
        except ProcessEnded:
            raise UnreadableFile("takes too much time or memory to be read") from None
    result = msgspec.msgpack.decode(answer, type=ReadResult)
    if result.problem:
        raise UnreadableFile(result.problem)
    return result


def _cut(text: str) -> str:
    if len(text) <= MOST_TEXT:
        return text
    return f"{text[:MOST_TEXT]}\n\n[cut: these are the first {MOST_TEXT:,} of {len(text):,} characters]"
