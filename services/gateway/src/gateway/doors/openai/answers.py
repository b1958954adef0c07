"""Updates as OpenAI's chat completions: chunks of a stream, or one document. Pure.

Tools that we ran are never told: to a client, a call in an answer is its own to run.
"""

from collections.abc import Iterable
from functools import partial

from contracts import wire
from contracts.updates import Broken, Finished, Sources, Started, Text, Update
from gateway.doors.openai import refusals
from gateway.doors.openai.wire import (
    Annotation,
    Choice,
    ChunkChoice,
    Completion,
    CompletionChunk,
    Delta,
    Said,
    Tokens,
    UrlCitation,
)

_DONE = b"data: [DONE]\n\n"


class Chunks:
    """The stream. It ends with a finish and `[DONE]`, or with an error."""

    def __init__(self, completion_id: str, model: str, created: int, *, include_usage: bool) -> None:
        self._chunk_of = partial(
            CompletionChunk, id=completion_id, object="chat.completion.chunk", created=created, model=model
        )
        self._include_usage = include_usage

    def encode(self, updates: Iterable[Update]) -> bytes:
        """The bytes of these updates; b"" for those that clients are not told of."""
        return b"".join(self._bytes(update) for update in updates)

    def _bytes(self, update: Update) -> bytes:
        match update:
            case Text():
                return self._chunk(Delta(content=update.text))
            case Started():
                return self._chunk(Delta(role="assistant", content=""))
            case Sources() if update.sources:
                return self._chunk(Delta(annotations=_annotations(update)))
            case Finished():
                return self._chunk(Delta(), "stop") + self._usage(update) + _DONE
            case Broken():
                return _event(refusals.event(update.code, update.message))
            case _:
                return b""

    def _chunk(self, delta: Delta, finish_reason: str | None = None) -> bytes:
        choice = ChunkChoice(delta=delta, finish_reason=finish_reason)
        return _event(self._chunk_of(choices=(choice,)))

    def _usage(self, finished: Finished) -> bytes:
        if not self._include_usage:
            return b""
        return _event(self._chunk_of(choices=(), usage=_tokens(finished)))


class Document:
    """The whole."""

    def __init__(self, completion_id: str, model: str, created: int) -> None:
        self._id, self._model, self._created = completion_id, model, created

    def encode(self, updates: Iterable[Update]) -> bytes:
        """The bytes of all updates of a run, which ends Finished."""
        annotations: tuple[Annotation, ...] = ()
        for last in updates:
            if isinstance(last, Sources):
                annotations = _annotations(last)
        assert isinstance(last, Finished)
        said = Said(role="assistant", content=last.message.content, annotations=annotations)
        return wire.encode(
            Completion(
                id=self._id,
                created=self._created,
                model=self._model,
                choices=(Choice(message=said),),
                usage=_tokens(last),
            )
        )


def _annotations(sources: Sources) -> tuple[Annotation, ...]:
    return tuple(
        Annotation(url_citation=UrlCitation(url=source.url, title=source.title)) for source in sources.sources
    )


def _tokens(finished: Finished) -> Tokens:
    """Cached tokens are prompt tokens to OpenAI."""
    total, output = finished.message.token_count, finished.usage.output_tokens
    return Tokens(prompt_tokens=total - output, completion_tokens=output, total_tokens=total)


def _event(value: object) -> bytes:
    return b"data: " + wire.encode(value) + b"\n\n"
