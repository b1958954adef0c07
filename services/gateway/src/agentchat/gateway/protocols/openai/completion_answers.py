"""Updates as OpenAI's chat completions: chunks of a stream, or one document. Pure.

Tools that we ran are never sent: to a client, a call in an answer is its own to run.
"""

from collections.abc import Iterable
from functools import partial

from agentchat.contracts import updates
from agentchat.contracts import wire as json
from agentchat.contracts.values import Cut, Source
from agentchat.gateway.protocols.openai import openai_refusals, wire
from agentchat.gateway.protocols.openai.citations import citations

_DONE = b"data: [DONE]\n\n"
_FINISH: dict[Cut | None, str] = {None: "stop", "length": "length", "refusal": "content_filter"}


class CompletionChunks:
    """The stream. It ends with a finish and `[DONE]`, or with an error."""

    def __init__(self, completion_id: str, model: str, created: int, *, include_usage: bool) -> None:
        self._chunk_of = partial(
            wire.CompletionChunk,
            id=completion_id,
            object="chat.completion.chunk",
            created=created,
            model=model,
        )
        self._include_usage = include_usage
        self._sources: tuple[Source, ...] = ()

    def encode(self, new: Iterable[updates.Update]) -> bytes:
        """The bytes of these updates; b"" for those that clients do not get."""
        return b"".join(self._bytes(update) for update in new)

    def _bytes(self, update: updates.Update) -> bytes:
        match update:
            case updates.Text():
                return self._chunk(wire.Delta(content=update.text))
            case updates.Started():
                return self._chunk(wire.Delta(role="assistant", content=""))
            case updates.RetrievedSources():
                self._sources = update.sources
                return b""
            case updates.Finished():
                return self._annotations(update) + self._finish(update)
            case updates.Broken():
                return json.encode_sse(openai_refusals.event(update.code, update.message, update.approvals))
            case _:
                return b""

    def _chunk(self, delta: wire.Delta, finish_reason: str | None = None) -> bytes:
        choice = wire.ChunkChoice(delta=delta, finish_reason=finish_reason)
        return json.encode_sse(self._chunk_of(choices=(choice,)))

    def _annotations(self, finished: updates.Finished) -> bytes:
        """Their places are known when the text is complete."""
        if not self._sources:
            return b""
        return self._chunk(wire.Delta(annotations=_annotations(finished.message.content, self._sources)))

    def _finish(self, finished: updates.Finished) -> bytes:
        return self._chunk(wire.Delta(), _FINISH[finished.cut]) + self._usage(finished) + _DONE

    def _usage(self, finished: updates.Finished) -> bytes:
        if not self._include_usage:
            return b""
        return json.encode_sse(self._chunk_of(choices=(), usage=_tokens(finished)))


def completion_of(
    finished: updates.Finished, new: Iterable[updates.Update], completion_id: str, model: str, created: int
) -> wire.Completion:
    """The document: a run that has `finished`, of all its updates."""
    found = [update for update in new if isinstance(update, updates.RetrievedSources)]
    reply = wire.CompletionReply(
        role="assistant",
        content=finished.message.content,
        annotations=_annotations(finished.message.content, found[-1].sources) if found else (),
    )
    return wire.Completion(
        id=completion_id,
        created=created,
        model=model,
        choices=(wire.Choice(message=reply, finish_reason=_FINISH[finished.cut]),),
        usage=_tokens(finished),
    )


def _annotations(text: str, sources: tuple[Source, ...]) -> tuple[wire.Annotation, ...]:
    return tuple(
        wire.Annotation(
            url_citation=wire.UrlCitation(
                url=each.source.url, title=each.source.title, start_index=each.start, end_index=each.end
            )
        )
        for each in citations(text, sources)
    )


def _tokens(finished: updates.Finished) -> wire.Tokens:
    """Cached tokens are prompt tokens to OpenAI."""
    total, output = finished.message.token_count, finished.usage.output_tokens
    return wire.Tokens(prompt_tokens=total - output, completion_tokens=output, total_tokens=total)
