"""Updates as events of AG-UI. Pure.

Each round that says or calls something is a message of the assistant; what its tools returned follows it.
"""

from collections.abc import Iterable
from typing import Any

from contracts import errors, ids, updates
from contracts import wire as json
from contracts.values import Elicitation
from gateway.http.refusals import Refusal, RequestIds, WordedRefusal
from gateway.protocols.ag_ui import wire

ANSWER: dict[str, Any] = {
    "type": "object",
    "required": ["approved"],
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object", "description": "In the place of the agent's, complete."},
        "reason": {"type": "string", "description": "Of a refusal, for the agent."},
    },
}
"""The answer to an interrupt (JSON Schema)."""


def answer_to(asks: Elicitation) -> dict[str, Any]:
    """The answer to a tool that asks (JSON Schema)."""
    properties: dict[str, Any] = {"approved": {"type": "boolean"}}
    if asks.requested_schema is not None:
        properties["input"] = asks.requested_schema
    return {"type": "object", "required": ["approved"], "properties": properties}


class AgUiEvents:
    """The stream of one run. It ends with RUN_FINISHED or RUN_ERROR, and nothing is open at the first.

    `is_1_0`: the client knows the outcome of a run that was cancelled, and interrupts that expire.
    """

    def __init__(
        self, thread_id: str, run_id: str, trace_id: str, conversation_id: str, *, is_1_0: bool
    ) -> None:
        self._thread_id = thread_id
        self._run_id = run_id
        self._ids = {"traceId": trace_id, "conversationId": conversation_id}
        self._is_1_0 = is_1_0
        self._reply_id = self._message_id = ids.reply_id(trace_id)
        self._text_is_open = False

    def encode(self, new: Iterable[updates.Update]) -> bytes:
        """The bytes of these updates, whose tools' returns have their outputs."""
        return b"".join(self._bytes(update) for update in new)

    def _bytes(self, update: updates.Update) -> bytes:
        match update:
            case updates.Text():
                event = wire.TextMessageContent(message_id=self._message_id, delta=update.text)
                return self._begin_text() + json.encode_sse(event)
            case updates.Started():
                started = wire.RunStarted(thread_id=self._thread_id, run_id=self._run_id)
                return _sent(started, wire.Custom(name="run", value=self._ids))
            case updates.RetrievedSources():
                return _sent(wire.Custom(name="sources", value=update.sources))
            case updates.ToolStarted():
                return self._end_text() + _sent(*self._called(update))
            case updates.ToolEnded():
                return _sent(_returned(update))
            case updates.NextRound():
                before = self._end_text()
                self._message_id = f"{self._reply_id}-{update.number}"
                return before
            case updates.Finished():
                return self._end_text() + _sent(self._finished(update))
            case updates.Broken(code="cancelled") if self._is_1_0:
                return self._end_text() + _sent(self._ended(wire.Outcome(type="cancelled")))
            case updates.Broken(code="approval_required"):
                waits = wire.Outcome(type="interrupt", interrupts=tuple(self._interrupts(update)))
                return self._end_text() + _sent(self._ended(waits))
            case updates.Broken():
                return _sent(_failure(update))

    def _begin_text(self) -> bytes:
        if self._text_is_open:
            return b""
        self._text_is_open = True
        return _sent(wire.TextMessageStart(message_id=self._message_id, role="assistant"))

    def _end_text(self) -> bytes:
        if not self._text_is_open:
            return b""
        self._text_is_open = False
        return _sent(wire.TextMessageEnd(message_id=self._message_id))

    def _called(self, call: updates.ToolStarted) -> tuple[wire.Event, ...]:
        return (
            wire.ToolCallStart(
                tool_call_id=call.call_id, tool_call_name=call.name, parent_message_id=self._message_id
            ),
            wire.ToolCallArgs(tool_call_id=call.call_id, delta=json.encode(call.input).decode()),
            wire.ToolCallEnd(tool_call_id=call.call_id),
        )

    def _finished(self, finished: updates.Finished) -> wire.RunFinished:
        total, output = finished.message.token_count, finished.usage.output_tokens
        usage = wire.TokenUsage(input_tokens=total - output, output_tokens=output, total_tokens=total)
        return wire.RunFinished(
            thread_id=self._thread_id,
            run_id=self._run_id,
            usage=(usage,),
            result=None if finished.cut is None else {"cut": finished.cut},
        )

    def _ended(self, outcome: wire.Outcome) -> wire.RunFinished:
        return wire.RunFinished(thread_id=self._thread_id, run_id=self._run_id, outcome=outcome)

    def _interrupts(self, waits: updates.Broken) -> Iterable[wire.Interrupt]:
        for approval, call_id in zip(waits.approvals, waits.calls, strict=True):
            asks = approval.elicitation
            yield wire.Interrupt(
                id=approval.id,
                reason="tool_call" if asks is None else "input_required",
                tool_call_id=call_id,
                message=f"The agent asks to run {approval.tool}." if asks is None else asks.message,
                response_schema=ANSWER if asks is None else answer_to(asks),
                expires_at=approval.expires_at if self._is_1_0 else None,
                metadata=None if asks is None or asks.url is None else {"url": asks.url},
            )


def _sent(*events: wire.Event) -> bytes:
    return b"".join(map(json.encode_sse, events))


def ag_ui_words(refusal: Refusal, _: RequestIds) -> WordedRefusal:
    """Word a refusal as RUN_ERROR."""
    error = wire.RunError(message=refusal.detail, code=refusal.row.code)
    return WordedRefusal(media_type="application/json", body=json.encode(error))


def _failure(broken: updates.Broken) -> wire.RunError:
    """A code that the table does not hold must not reach a caller."""
    row = errors.error(broken.code)
    return wire.RunError(message=broken.message or row.title, code=row.code)


def _returned(returned: updates.ToolEnded) -> wire.ToolCallResult:
    return wire.ToolCallResult(
        message_id=f"result-{returned.call_id}",
        tool_call_id=returned.call_id,
        content=returned.output or "null",
        role="tool",
    )
