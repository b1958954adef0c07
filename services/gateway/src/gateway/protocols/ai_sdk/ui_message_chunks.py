"""Updates as chunks of a UI message stream. Pure."""

from collections.abc import Iterable
from typing import Any

import msgspec

from contracts import ids, wire
from contracts.updates import (
    Broken,
    Finished,
    NextRound,
    RetrievedSources,
    Started,
    Text,
    ToolEnded,
    ToolStarted,
    Update,
)
from contracts.values import Cut
from gateway.protocols.ai_sdk import ai_sdk_refusals
from gateway.protocols.ai_sdk.wire import (
    Chunk,
    DataElicitation,
    ElicitationData,
    Error,
    Finish,
    FinishStep,
    SourceUrl,
    Start,
    StartStep,
    TextDelta,
    TextEnd,
    TextStart,
    ToolApprovalRequest,
    ToolInputAvailable,
    ToolOutputAvailable,
    ToolOutputDenied,
    ToolOutputError,
)
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

    def encode(self, updates: Iterable[Update]) -> bytes:
        """The bytes of these updates, whose tools' returns have their outputs."""
        return b"".join(self._bytes(update) for update in updates)

    def _bytes(self, update: Update) -> bytes:
        match update:
            case Text():
                return self._say(update.text)
            case Started():
                return _sent(self._start(), *(StartStep() for _ in range(self._in_step)))
            case RetrievedSources():
                return _sent(
                    *(SourceUrl(source_id=each.id, url=each.url, title=each.title) for each in update.sources)
                )
            case ToolStarted():
                return self._end_text() + _sent(_called(update))
            case ToolEnded():
                return _sent(self._returned(update))
            case NextRound():
                before = self._end_step()
                self._round, self._in_step = update.number, True
                return before + _sent(StartStep())
            case Finished():
                return self._end_step() + _sent(_finish(update)) + _DONE
            case Broken(code="approval_required"):
                return self._end_text() + _sent(*_asked(update)) + self._end_step() + _WAITS
            case Broken():
                return _sent(Error(error_text=ai_sdk_refusals.sentence(update.code, update.message)))

    def _start(self) -> Start:
        known = {"conversationId": self._conversation_id, "traceId": self._trace_id}
        return Start(message_id=ids.reply_id(self._trace_id), message_metadata=known)

    def _say(self, text: str) -> bytes:
        begun = b""
        if self._text is None:
            self._text = str(self._round)
            begun = _sent(TextStart(id=self._text))
        return begun + wire.encode_sse(TextDelta(id=self._text, delta=text))

    def _returned(self, returned: ToolEnded) -> Chunk:
        call = None if self._after_pause is None else self._after_pause.calls.get(returned.call_id)
        if call is not None and call.is_denied:
            return ToolOutputDenied(tool_call_id=returned.call_id)
        return _returned(returned)

    def _end_step(self) -> bytes:
        ended = self._end_text()
        if self._in_step:
            self._in_step = False
            ended += _sent(FinishStep())
        return ended

    def _end_text(self) -> bytes:
        if self._text is None:
            return b""
        ended, self._text = self._text, None
        return _sent(TextEnd(id=ended))


def _sent(*chunks: Chunk) -> bytes:
    return b"".join(map(wire.encode_sse, chunks))


_WAITS = _sent(Finish(finish_reason="tool-calls")) + _DONE


def _asked(waits: Broken) -> Iterable[Chunk]:
    for approval, call_id in zip(waits.approvals, waits.calls, strict=True):
        if (asks := approval.elicitation) is not None:
            fields = ElicitationData(
                approval_id=approval.id,
                tool_call_id=call_id,
                message=asks.message,
                requested_schema=asks.requested_schema,
                url=asks.url,
            )
            yield DataElicitation(id=approval.id, data=fields)
        yield ToolApprovalRequest(approval_id=approval.id, tool_call_id=call_id)


def _called(call: ToolStarted) -> ToolInputAvailable:
    return ToolInputAvailable(
        tool_call_id=call.call_id,
        tool_name=call.name,
        input=call.input,
        provider_executed=True,
        dynamic=True,
    )


def _returned(returned: ToolEnded) -> ToolOutputAvailable | ToolOutputError:
    output = returned.output or "null"
    fields: Any = {"tool_call_id": returned.call_id, "provider_executed": True, "dynamic": True}
    if returned.is_error:
        value = msgspec.json.decode(output)
        return ToolOutputError(error_text=value if isinstance(value, str) else output, **fields)
    return ToolOutputAvailable(output=_on_one_line(output), **fields)


def _on_one_line(output: str) -> msgspec.Raw:
    """An event is one line; a tool may have formatted its JSON."""
    if "\n" in output or "\r" in output:
        output = msgspec.json.format(output, indent=-1)
    return msgspec.Raw(output.encode())


def _finish(finished: Finished) -> Finish:
    total, output = finished.message.token_count, finished.usage.output_tokens
    usage = {"inputTokens": total - output, "outputTokens": output, "totalTokens": total}
    return Finish(finish_reason=_FINISH[finished.cut], message_metadata={"usage": usage})
