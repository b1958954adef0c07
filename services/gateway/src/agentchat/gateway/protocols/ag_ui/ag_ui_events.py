"""Encode updates as events of AG-UI. Pure.

Each round with text or calls is a message of the assistant; the results of its tools follow it.
"""

from collections.abc import Iterable
from typing import Any

from agentchat.contracts import errors, ids, updates
from agentchat.contracts import wire as json
from agentchat.contracts.values import ApprovalNeeded, Elicitation
from agentchat.gateway.http.problems import FormattedRefusal, Refusal, RequestIds

ANSWER: dict[str, Any] = {
    "type": "object",
    "required": ["approved"],
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object", "description": "Replaces the agent's arguments completely."},
        "reason": {"type": "string", "description": "Of a refusal, for the agent."},
    },
}
"""The answer to an interrupt (JSON Schema)."""


def build_answer_schema(asks: Elicitation) -> dict[str, Any]:
    """Build the JSON Schema of the answer to a tool's question."""
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
        self._reply_id = self._message_id = ids.derive_reply_id(trace_id)
        self._open = ""  # the kind of message that is open: TEXT or REASONING

    def encode(self, new: Iterable[updates.Update]) -> bytes:
        """Encode updates, whose tool results have their outputs."""
        return b"".join(self._encode_update(update) for update in new)

    def _encode_update(self, update: updates.Update) -> bytes:
        match update:
            case updates.TextUpdate():
                return self._begin_text() + self._encode_message_event(
                    "TEXT_MESSAGE_CONTENT", delta=update.text
                )
            case updates.ReasoningUpdate():
                return self._begin_reasoning() + self._encode_reasoning_event(
                    "REASONING_MESSAGE_CONTENT", delta=update.text
                )
            case updates.Started():
                started = _encode_event("RUN_STARTED", threadId=self._thread_id, runId=self._run_id)
                return started + _encode_event("CUSTOM", name="run", value=self._ids)
            case updates.RetrievedSources():
                return _encode_event("CUSTOM", name="sources", value=update.sources)
            case updates.WarningUpdate():
                return _encode_event("CUSTOM", name="warning", value=update.warning)
            case updates.ToolStarted():
                return self._end_message() + self._encode_call(update)
            case updates.ToolProgressed():
                return b""
            case updates.ToolEnded():
                failed = {"metadata": {"isError": True}} if update.is_error else {}
                return _encode_event(
                    "TOOL_CALL_RESULT",
                    messageId=f"result-{update.call_id}",
                    toolCallId=update.call_id,
                    content=update.output or "null",
                    role="tool",
                    **failed,
                )
            case updates.NextRound():
                before = self._end_message()
                self._message_id = f"{self._reply_id}-{update.number}"
                return before
            case updates.Finished():
                return self._end_message() + self._finish_run(update)
            case updates.Broken(code="cancelled" | "interrupted") if self._is_1_0:
                return self._end_message() + self._run_finished(outcome={"type": "cancelled"})
            case updates.Broken(code="approval_required"):
                interrupts = [
                    self._interrupt(approval, call_id)
                    for approval, call_id in zip(update.approvals, update.calls, strict=True)
                ]
                outcome = {"type": "interrupt", "interrupts": interrupts}
                return self._end_message() + self._run_finished(outcome=outcome)
            case updates.Broken(code="client_tools_required"):
                return self._end_message() + self._run_finished()
            case updates.Broken():  # a code that the table does not hold must not reach a caller
                row = errors.get_error_code(update.code)
                return _encode_event("RUN_ERROR", message=update.message or row.title, code=row.code)

    def _encode_message_event(self, kind: str, **fields: object) -> bytes:
        return _encode_event(kind, messageId=self._message_id, **fields)

    def _begin_text(self) -> bytes:
        if self._open == "TEXT":
            return b""
        ended, self._open = self._end_message(), "TEXT"
        return ended + self._encode_message_event("TEXT_MESSAGE_START", role="assistant")

    def _begin_reasoning(self) -> bytes:
        if self._open == "REASONING":
            return b""
        ended, self._open = self._end_message() + self._encode_reasoning_event("REASONING_START"), "REASONING"
        return ended + self._encode_reasoning_event("REASONING_MESSAGE_START", role="reasoning")

    def _encode_reasoning_event(self, kind: str, **fields: object) -> bytes:
        return _encode_event(kind, messageId=f"{self._message_id}-reasoning", **fields)

    def _end_message(self) -> bytes:
        ended, self._open = self._open, ""
        match ended:
            case "TEXT":
                return self._encode_message_event("TEXT_MESSAGE_END")
            case "REASONING":
                return self._encode_reasoning_event("REASONING_MESSAGE_END") + self._encode_reasoning_event(
                    "REASONING_END"
                )
            case _:
                return b""

    def _encode_call(self, call: updates.ToolStarted) -> bytes:
        started = _encode_event(
            "TOOL_CALL_START",
            toolCallId=call.call_id,
            toolCallName=call.name,
            parentMessageId=self._message_id,
        )
        arguments = json.encode(call.input).decode()
        given = _encode_event("TOOL_CALL_ARGS", toolCallId=call.call_id, delta=arguments)
        return started + given + _encode_event("TOOL_CALL_END", toolCallId=call.call_id)

    def _finish_run(self, finished: updates.Finished) -> bytes:
        """Encode the end of the run. Cached tokens are input tokens."""
        total, output = finished.message.token_count, finished.usage.output_tokens
        usage = {"inputTokens": total - output, "outputTokens": output, "totalTokens": total}
        if finished.usage.reasoning_tokens:
            usage["reasoningTokens"] = finished.usage.reasoning_tokens
        cut = {} if finished.cut is None else {"result": {"cut": finished.cut}}
        return self._run_finished(usage=[usage], **cut)

    def _run_finished(self, **fields: object) -> bytes:
        return _encode_event("RUN_FINISHED", threadId=self._thread_id, runId=self._run_id, **fields)

    def _interrupt(self, approval: ApprovalNeeded, call_id: str) -> dict[str, Any]:
        """Describe a tool call that needs approval, or whose tool asks them.

        0.0.59 takes no answer, nor any other run of the thread, once `expiresAt` is over: it is not sent.
        """
        asks = approval.elicitation
        interrupt: dict[str, Any] = {
            "id": approval.id,
            "reason": "tool_call" if asks is None else "input_required",
            "toolCallId": call_id,
            "message": f"The agent asks to run {approval.tool}." if asks is None else asks.message,
            "responseSchema": ANSWER if asks is None else build_answer_schema(asks),
        }
        if self._is_1_0 and approval.expires_at is not None:
            interrupt["expiresAt"] = approval.expires_at
        if asks is not None and asks.url is not None:
            interrupt["metadata"] = {"url": asks.url}
        return interrupt


def _encode_event(kind: str, **fields: object) -> bytes:
    """Encode an event (@ag-ui/core 1.0.0 and 0.0.59).

    The older client stops at a type that it does not know, and at an optional field that is null.
    """
    return json.encode_sse({"type": kind, **fields})


def format_ag_ui_error(refusal: Refusal, ids: RequestIds) -> FormattedRefusal:
    """Format a refusal as RUN_ERROR."""
    error = {"type": "RUN_ERROR", "message": refusal.detail, "code": refusal.row.code}
    if ids.conversation_id is not None:
        error["conversationId"] = ids.conversation_id
    return FormattedRefusal(media_type="application/json", body=json.encode(error))
