"""Encode updates as OpenAI's chat completions: chunks of a stream, or one document. Pure.

Calls of our own tools are never sent: a client would take them for its own to run. Calls of the client's
tools are sent once the run waits for them. If it forces one function, the reply is sent as its arguments.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from msgspec.structs import replace

from agentchat.contracts import updates
from agentchat.contracts import wire as json
from agentchat.contracts.values import Cut, PendingClientCall, Source
from agentchat.gateway.protocols.openai import completion_types, openai_errors
from agentchat.gateway.protocols.openai.citations import list_citations

_DONE = b"data: [DONE]\n\n"
_FINISH: dict[Cut | None, str] = {None: "stop", "length": "length", "refusal": "content_filter"}


class CompletionChunks:
    """The stream. It ends with a finish and `[DONE]`, or with an error."""

    def __init__(
        self,
        completion_id: str,
        model: str,
        created: int,
        conversation_id: str,
        *,
        include_usage: bool,
        function: str | None = None,
    ) -> None:
        self._call_id = completion_id.replace("chatcmpl-", "call_")
        self._function = function
        self._has_call = False
        self._conversation_id = conversation_id
        self._chunk_of = partial(
            completion_types.CompletionChunk,
            id=completion_id,
            object="chat.completion.chunk",
            created=created,
            model=model,
        )
        self._include_usage = include_usage
        self._sources: tuple[Source, ...] = ()

    def encode(self, new: Iterable[updates.Update]) -> bytes:
        """Encode updates; b"" for those that clients do not get."""
        return b"".join(self._encode_update(update) for update in new)

    def _encode_update(self, update: updates.Update) -> bytes:
        match update:
            case updates.TextUpdate() if self._function is not None:
                return self._encode_chunk(self._call(self._function, update.text))
            case updates.TextUpdate():
                return self._encode_chunk(completion_types.CompletionDelta(content=update.text))
            case updates.ReasoningUpdate():
                return self._encode_chunk(completion_types.CompletionDelta(reasoning_content=update.text))
            case updates.Started():
                return self._encode_chunk(completion_types.CompletionDelta(role="assistant", content=""))
            case updates.RetrievedSources() if self._function is None:
                self._sources = update.sources
                return b""
            case updates.Finished():
                return self._encode_annotations(update) + self._finish(update)
            case updates.Broken(client_calls=calls) if calls:
                delta = completion_types.CompletionDelta(tool_calls=_build_calls(calls, streamed=True))
                return self._encode_chunk(delta) + self._finish(update)
            case updates.Broken():
                return self._encode_error(update)
            case _:
                return b""

    def _call(self, function: str, arguments: str) -> completion_types.CompletionDelta:
        """Build a piece of the call of the client's function; the first one names it."""
        is_first, self._has_call = not self._has_call, True
        called = completion_types.CalledFunction(name=function if is_first else "", arguments=arguments)
        call = completion_types.FunctionCall(index=0, function=called)
        if is_first:
            call = replace(call, id=self._call_id, type="function")
        return completion_types.CompletionDelta(tool_calls=(call,))

    def _encode_error(self, broken: updates.Broken) -> bytes:
        error = openai_errors.build_error_event(broken.code, broken.message, broken.approvals).error
        error = replace(error, conversation_id=self._conversation_id)
        return json.encode_sse(completion_types.OpenAIError(error=error))

    def _encode_chunk(
        self, delta: completion_types.CompletionDelta, finish_reason: str | None = None
    ) -> bytes:
        choice = completion_types.ChunkChoice(delta=delta, finish_reason=finish_reason)
        return json.encode_sse(self._chunk_of(choices=(choice,)))

    def _encode_annotations(self, finished: updates.Finished) -> bytes:
        """Encode the citations, whose places are known when the text is complete."""
        if not self._sources:
            return b""
        return self._encode_chunk(
            completion_types.CompletionDelta(
                annotations=_build_annotations(finished.message.content, self._sources)
            )
        )

    def _finish(self, finished: updates.Finished | updates.Broken) -> bytes:
        return (
            self._encode_chunk(completion_types.CompletionDelta(), _find_reason(finished, self._function))
            + self._encode_usage(finished)
            + _DONE
        )

    def _encode_usage(self, finished: updates.Finished | updates.Broken) -> bytes:
        if not self._include_usage:
            return b""
        return json.encode_sse(self._chunk_of(choices=(), usage=_count_tokens(finished)))


def build_completion(
    last: updates.Finished | updates.Broken,
    new: Sequence[updates.Update],
    completion_id: str,
    model: str,
    created: int,
    function: str | None = None,
    text: str | None = None,
) -> completion_types.Completion:
    """Build the document of a run that has finished, or waits for its client, from all its updates.

    `function`: The client's function whose arguments are the reply. `text`: A part of the reply, if this is
    not all of it.
    """
    found = [update for update in new if isinstance(update, updates.RetrievedSources)]
    reasoning = "".join(update.text for update in new if isinstance(update, updates.ReasoningUpdate))
    if isinstance(last, updates.Broken):
        reply = completion_types.CompletionReply(
            role="assistant", content=join_text(new) or None, tool_calls=_build_calls(last.client_calls)
        )
    elif function is not None:
        called = completion_types.CalledFunction(name=function, arguments=last.message.content)
        call_id = completion_id.replace("chatcmpl-", "call_")
        call = completion_types.FunctionCall(id=call_id, type="function", function=called)
        reply = completion_types.CompletionReply(role="assistant", content=None, tool_calls=(call,))
    else:
        content = last.message.content if text is None else text
        cited = _build_annotations(content, found[-1].sources) if found else ()
        reply = completion_types.CompletionReply(role="assistant", content=content, annotations=cited)
    return completion_types.Completion(
        id=completion_id,
        created=created,
        model=model,
        choices=(
            completion_types.Choice(
                message=replace(reply, reasoning_content=reasoning),
                finish_reason=_find_reason(last, function),
            ),
        ),
        usage=_count_tokens(last),
    )


def join_text(new: Iterable[updates.Update]) -> str:
    """Join the pieces of text among these updates."""
    return "".join(update.text for update in new if isinstance(update, updates.TextUpdate))


def _build_calls(
    calls: Iterable[PendingClientCall], *, streamed: bool = False
) -> tuple[completion_types.FunctionCall, ...]:
    return tuple(
        completion_types.FunctionCall(
            index=index if streamed else None,
            id=call.id,
            type="function",
            function=completion_types.CalledFunction(
                name=call.name, arguments=json.encode(call.input).decode()
            ),
        )
        for index, call in enumerate(calls)
    )


def _find_reason(last: updates.Finished | updates.Broken, function: str | None) -> str:
    if isinstance(last, updates.Broken):
        return "tool_calls"
    return "tool_calls" if function is not None and last.cut is None else _FINISH[last.cut]


def _build_annotations(text: str, sources: tuple[Source, ...]) -> tuple[completion_types.Annotation, ...]:
    return tuple(
        completion_types.Annotation(
            url_citation=completion_types.UrlCitation(
                url=each.source.url, title=each.source.title, start_index=each.start, end_index=each.end
            )
        )
        for each in list_citations(text, sources)
    )


def _count_tokens(last: updates.Finished | updates.Broken) -> completion_types.Tokens:
    """Count the tokens as OpenAI does: cached tokens are prompt tokens."""
    total = last.usage.total if isinstance(last, updates.Broken) else last.message.token_count
    output = last.usage.output_tokens
    tokens = completion_types.Tokens(
        prompt_tokens=total - output, completion_tokens=output, total_tokens=total
    )
    if not (thought := last.usage.reasoning_tokens):
        return tokens
    details = completion_types.CompletionDetails(reasoning_tokens=thought)
    return replace(tokens, completion_tokens_details=details)
