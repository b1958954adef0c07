"""Updates as chunks of a UI message stream. Pure."""

from collections.abc import Iterable
from typing import Any

import msgspec

from contracts import errors, ids, updates
from contracts import wire as json
from contracts.values import Cut
from gateway.http.refusals import Refusal, RequestIds, WordedRefusal
from gateway.protocols.ai_sdk import wire
from gateway.runs.after_pause import AfterPause

_DONE = b"data: [DONE]\n\n"
_FINISH: dict[Cut | None, str] = {None: "stop", "length": "length", "refusal": "content-filter"}


class AiSdkChunks:
    """The stream of one reply, whose steps are the rounds of its run. It ends with `finish` or `error`.

    With `after_pause` it continues the client's message, whose step had ended with the wait.
    """

    def __init__(self, trace_id: str, conversation_id: str, after_pause: AfterPause | None = None) -> None:
        self._trace_id = trace_id
        self._conversation_id = conversation_id
        self._after_pause = after_pause
        self._in_step = after_pause is None
        self._round = 1
        self._text: str | None = None  # the id of the text part that is open

    def encode(self, new: Iterable[updates.Update]) -> bytes:
        """The bytes of these updates, whose tools' returns have their outputs."""
        return b"".join(self._bytes(update) for update in new)

    def _bytes(self, update: updates.Update) -> bytes:
        match update:
            case updates.Text():
                return self._say(update.text)
            case updates.Started():
                return _sent(self._start(), *(wire.StartStep() for _ in range(self._in_step)))
            case updates.RetrievedSources():
                return _sent(
                    *(
                        wire.SourceUrl(source_id=each.id, url=each.url, title=each.title)
                        for each in update.sources
                    )
                )
            case updates.ToolStarted():
                return self._end_text() + _sent(_called(update))
            case updates.ToolEnded():
                return _sent(self._returned(update))
            case updates.NextRound():
                before = self._end_step()
                self._round, self._in_step = update.number, True
                return before + _sent(wire.StartStep())
            case updates.Finished():
                return self._end_step() + _sent(_finish(update)) + _DONE
            case updates.Broken(code="approval_required"):
                return self._end_text() + _sent(*_asked(update)) + self._end_step() + _WAITS
            case updates.Broken():
                return _sent(_failure(update))

    def _start(self) -> wire.Start:
        known = {"conversationId": self._conversation_id, "traceId": self._trace_id}
        return wire.Start(message_id=ids.reply_id(self._trace_id), message_metadata=known)

    def _say(self, text: str) -> bytes:
        begun = b""
        if self._text is None:
            self._text = str(self._round)
            begun = _sent(wire.TextStart(id=self._text))
        return begun + json.encode_sse(wire.TextDelta(id=self._text, delta=text))

    def _returned(self, returned: updates.ToolEnded) -> wire.Chunk:
        call = None if self._after_pause is None else self._after_pause.calls.get(returned.call_id)
        if call is not None and call.is_denied:
            return wire.ToolOutputDenied(tool_call_id=returned.call_id)
        return _returned(returned)

    def _end_step(self) -> bytes:
        ended = self._end_text()
        if self._in_step:
            self._in_step = False
            ended += _sent(wire.FinishStep())
        return ended

    def _end_text(self) -> bytes:
        if self._text is None:
            return b""
        ended, self._text = self._text, None
        return _sent(wire.TextEnd(id=ended))


def _sent(*chunks: wire.Chunk) -> bytes:
    return b"".join(map(json.encode_sse, chunks))


def ai_sdk_words(refusal: Refusal, _: RequestIds) -> WordedRefusal:
    """Word a refusal as one line, our code and a sentence: the client shows people the complete body."""
    return WordedRefusal(media_type="text/plain", body=f"{refusal.row.code}: {refusal.detail}".encode())


def _failure(broken: updates.Broken) -> wire.Error:
    """In the same words. A code that the table does not hold must not reach a caller."""
    row = errors.error(broken.code)
    return wire.Error(error_text=f"{row.code}: {broken.message or row.title}")


_WAITS = _sent(wire.Finish(finish_reason="tool-calls")) + _DONE


def _asked(waits: updates.Broken) -> Iterable[wire.Chunk]:
    for approval, call_id in zip(waits.approvals, waits.calls, strict=True):
        if (asks := approval.elicitation) is not None:
            fields = wire.ElicitationData(
                approval_id=approval.id,
                tool_call_id=call_id,
                message=asks.message,
                requested_schema=asks.requested_schema,
                url=asks.url,
            )
            yield wire.DataElicitation(id=approval.id, data=fields)
        yield wire.ToolApprovalRequest(approval_id=approval.id, tool_call_id=call_id)


def _called(call: updates.ToolStarted) -> wire.ToolInputAvailable:
    return wire.ToolInputAvailable(
        tool_call_id=call.call_id,
        tool_name=call.name,
        input=call.input,
        provider_executed=True,
        dynamic=True,
    )


def _returned(returned: updates.ToolEnded) -> wire.ToolOutputAvailable | wire.ToolOutputError:
    output = returned.output or "null"
    fields: Any = {"tool_call_id": returned.call_id, "provider_executed": True, "dynamic": True}
    if returned.is_error:
        value = msgspec.json.decode(output)
        return wire.ToolOutputError(error_text=value if isinstance(value, str) else output, **fields)
    return wire.ToolOutputAvailable(output=_on_one_line(output), **fields)


def _on_one_line(output: str) -> msgspec.Raw:
    """An event is one line; a tool may have formatted its JSON."""
    if "\n" in output or "\r" in output:
        output = msgspec.json.format(output, indent=-1)
    return msgspec.Raw(output.encode())


def _finish(finished: updates.Finished) -> wire.Finish:
    total, output = finished.message.token_count, finished.usage.output_tokens
    usage = {"inputTokens": total - output, "outputTokens": output, "totalTokens": total}
    return wire.Finish(finish_reason=_FINISH[finished.cut], message_metadata={"usage": usage})
