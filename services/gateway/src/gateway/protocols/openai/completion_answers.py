"""Updates as OpenAI's chat completions: chunks of a stream, or one document. Pure.

Tools that we ran are never sent: to a client, a call in an answer is its own to run.
"""

from collections.abc import Iterable
from functools import partial

from contracts import wire
from contracts.updates import Broken, Finished, RetrievedSources, Started, Text, Update
from contracts.values import Cut, Source
from gateway.protocols.openai import openai_refusals
from gateway.protocols.openai.citations import citations
from gateway.protocols.openai.wire import (
    Annotation,
    Choice,
    ChunkChoice,
    Completion,
    CompletionChunk,
    CompletionReply,
    Delta,
    Tokens,
    UrlCitation,
)

_DONE = b"data: [DONE]\n\n"
_FINISH: dict[Cut | None, str] = {None: "stop", "length": "length", "refusal": "content_filter"}


class CompletionChunks:
    """The stream. It ends with a finish and `[DONE]`, or with an error."""

    def __init__(self, completion_id: str, model: str, created: int, *, include_usage: bool) -> None:
        self._chunk_of = partial(
            CompletionChunk, id=completion_id, object="chat.completion.chunk", created=created, model=model
        )
        self._include_usage = include_usage
        self._sources: tuple[Source, ...] = ()

    def encode(self, updates: Iterable[Update]) -> bytes:
        """The bytes of these updates; b"" for those that clients do not get."""
        return b"".join(self._bytes(update) for update in updates)

    def _bytes(self, update: Update) -> bytes:
        match update:
            case Text():
                return self._chunk(Delta(content=update.text))
            case Started():
                return self._chunk(Delta(role="assistant", content=""))
            case RetrievedSources():
                self._sources = update.sources
                return b""
            case Finished():
                return self._annotations(update) + self._finish(update)
            case Broken():
                return wire.encode_sse(openai_refusals.event(update.code, update.message, update.approvals))
            case _:
                return b""

    def _chunk(self, delta: Delta, finish_reason: str | None = None) -> bytes:
        choice = ChunkChoice(delta=delta, finish_reason=finish_reason)
        return wire.encode_sse(self._chunk_of(choices=(choice,)))

    def _annotations(self, finished: Finished) -> bytes:
        """Their places are known when the text is complete."""
        if not self._sources:
            return b""
        return self._chunk(Delta(annotations=_annotations(finished.message.content, self._sources)))

    def _finish(self, finished: Finished) -> bytes:
        return self._chunk(Delta(), _FINISH[finished.cut]) + self._usage(finished) + _DONE

    def _usage(self, finished: Finished) -> bytes:
        if not self._include_usage:
            return b""
        return wire.encode_sse(self._chunk_of(choices=(), usage=_tokens(finished)))


def completion_of(
    finished: Finished, updates: Iterable[Update], completion_id: str, model: str, created: int
) -> Completion:
    """The document: a run that has `finished`, of all its updates."""
    found = [update for update in updates if isinstance(update, RetrievedSources)]
    reply = CompletionReply(
        role="assistant",
        content=finished.message.content,
        annotations=_annotations(finished.message.content, found[-1].sources) if found else (),
    )
    return Completion(
        id=completion_id,
        created=created,
        model=model,
        choices=(Choice(message=reply, finish_reason=_FINISH[finished.cut]),),
        usage=_tokens(finished),
    )


def _annotations(text: str, sources: tuple[Source, ...]) -> tuple[Annotation, ...]:
    return tuple(
        Annotation(
            url_citation=UrlCitation(url=source.url, title=source.title, start_index=start, end_index=end)
        )
        for source, start, end in citations(text, sources)
    )


def _tokens(finished: Finished) -> Tokens:
    """Cached tokens are prompt tokens to OpenAI."""
    total, output = finished.message.token_count, finished.usage.output_tokens
    return Tokens(prompt_tokens=total - output, completion_tokens=output, total_tokens=total)
