"""Encode updates as chunks of a UI message stream. Pure."""

from collections.abc import Iterable

import msgspec

from agentchat.contracts import errors, ids, updates
from agentchat.contracts import wire as json
from agentchat.contracts.values import Cut, Source
from agentchat.gateway.http.problems import FormattedRefusal, Refusal, RequestIds
from agentchat.gateway.runs.after_pause import AfterPause

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
        self._part: tuple[str, str] | None = None  # the kind and the id of the part that is open

    def encode(self, new: Iterable[updates.Update]) -> bytes:
        """Encode updates, whose tool results have their outputs."""
        return b"".join(self._encode_update(update) for update in new)

    def _encode_update(self, update: updates.Update) -> bytes:
        match update:
            case updates.TextUpdate():
                return self._encode_piece("text", str(self._round), update.text)
            case updates.ReasoningUpdate():
                return self._encode_piece("reasoning", f"reasoning-{update.round}", update.text)
            case updates.Started():
                return self._start()
            case updates.RetrievedSources():
                return b"".join(map(_encode_source, update.sources))
            case updates.WarningUpdate():
                return _encode_chunk("data-warning", data=update.warning, transient=True)
            case updates.ToolStarted(is_client=True):
                named = {"toolCallId": update.call_id, "toolName": update.name, "input": update.input}
                return self._end_part() + _encode_chunk("tool-input-available", **named, dynamic=True)
            case updates.ToolStarted():
                return self._end_part() + _encode_call_chunk(
                    "tool-input-available", update.call_id, toolName=update.name, input=update.input
                )
            case updates.ToolProgressed():
                return b""
            case updates.ToolEnded():
                return self._encode_return(update)
            case updates.NextRound():
                before = self._end_step()
                self._round, self._in_step = update.number, True
                return before + _encode_chunk("start-step")
            case updates.Finished():
                return self._end_step() + _encode_finish(update) + _DONE
            case updates.Broken(code="approval_required"):
                return self._end_part() + _encode_approval_requests(update) + self._end_step() + _WAITS
            case updates.Broken(code="client_tools_required"):
                return self._end_step() + _WAITS
            case updates.Broken():  # a code that the table does not hold must not reach a caller
                row = errors.get_error_code(update.code)
                return _encode_chunk("error", errorText=f"{row.code}: {update.message or row.title}")

    def _start(self) -> bytes:
        """Begin the message, under the id of the reply that will be saved."""
        known = {"conversationId": self._conversation_id, "traceId": self._trace_id}
        start = _encode_chunk("start", messageId=ids.derive_reply_id(self._trace_id), messageMetadata=known)
        return start + _encode_chunk("start-step") if self._in_step else start

    def _encode_piece(self, kind: str, part_id: str, text: str) -> bytes:
        begun = b""
        if self._part != (kind, part_id):
            begun = self._end_part() + _encode_chunk(f"{kind}-start", id=part_id)
            self._part = kind, part_id
        return begun + _encode_chunk(f"{kind}-delta", id=part_id, delta=text)

    def _encode_return(self, returned: updates.ToolEnded) -> bytes:
        call = None if self._after_pause is None else self._after_pause.calls.get(returned.call_id)
        if call is not None and call.is_denied:
            return _encode_chunk("tool-output-denied", toolCallId=returned.call_id)
        output = returned.output or "null"
        if returned.is_error:
            text = json.decode_tool_error(output)
            return _encode_call_chunk("tool-output-error", returned.call_id, errorText=text)
        return _encode_call_chunk("tool-output-available", returned.call_id, output=_on_one_line(output))

    def _end_step(self) -> bytes:
        ended = self._end_part()
        if self._in_step:
            self._in_step = False
            ended += _encode_chunk("finish-step")
        return ended

    def _end_part(self) -> bytes:
        if self._part is None:
            return b""
        (kind, part_id), self._part = self._part, None
        return _encode_chunk(f"{kind}-end", id=part_id)


def _encode_chunk(kind: str, **fields: object) -> bytes:
    """Encode a chunk of the UI message stream, version 1 (ai 6.0 and 7.0).

    Its client stops at a type that it does not know; it passes over fields that it does not know.
    """
    return json.encode_sse({"type": kind, **fields})


def _encode_source(source: Source) -> bytes:
    if source.url:
        return _encode_chunk("source-url", sourceId=source.id, url=source.url, title=source.title)
    return _encode_chunk(
        "source-document",
        sourceId=source.id,
        mediaType="text/plain",
        title=source.title,
        filename=source.document,
    )


def _encode_call_chunk(kind: str, call_id: str, **fields: object) -> bytes:
    """Encode a chunk about a tool call.

    `dynamic`: the client's code has no type for it. `providerExecuted`: the client is not to run it, nor to
    ask again once it has returned.
    """
    return _encode_chunk(kind, toolCallId=call_id, **fields, providerExecuted=True, dynamic=True)


def format_ai_sdk_error(refusal: Refusal, _: RequestIds) -> FormattedRefusal:
    """Format a refusal as one line, our code and a sentence: the client shows people the complete body."""
    return FormattedRefusal(media_type="text/plain", body=f"{refusal.row.code}: {refusal.detail}".encode())


_WAITS = _encode_chunk("finish", finishReason="tool-calls") + _DONE
"""The message continues once a person has decided, or the client has run its tools."""


def _encode_approval_requests(waits: updates.Broken) -> bytes:
    data = b""
    for approval, call_id in zip(waits.approvals, waits.calls, strict=True):
        if (asks := approval.elicitation) is not None:
            fields = {
                "approvalId": approval.id,
                "toolCallId": call_id,
                "message": asks.message,
                "requestedSchema": asks.requested_schema,
                "url": asks.url,
            }
            given = {name: value for name, value in fields.items() if value is not None}
            data += _encode_chunk("data-elicitation", id=approval.id, data=given)
        data += _encode_chunk("tool-approval-request", approvalId=approval.id, toolCallId=call_id)
    return data


def _on_one_line(output: str) -> msgspec.Raw:
    """Put JSON that a tool has formatted on one line, as an event is one."""
    if "\n" in output or "\r" in output:
        output = msgspec.json.format(output, indent=-1)
    return msgspec.Raw(output.encode())


def _encode_finish(finished: updates.Finished) -> bytes:
    total, output = finished.message.token_count, finished.usage.output_tokens
    usage = {"inputTokens": total - output, "outputTokens": output, "totalTokens": total}
    if finished.usage.reasoning_tokens:
        usage["reasoningTokens"] = finished.usage.reasoning_tokens
    return _encode_chunk("finish", finishReason=_FINISH[finished.cut], messageMetadata={"usage": usage})
