"""Encode updates as the items of a response, and as events. Pure.

The number of an event is a place in the canonical stream, however its text was split: each code point counts
one, and each other event. So a client that continues after a number gets the rest, at any gateway. Events of
reasoning have the number of the event before them: reasoning may be shown or not.
"""

from collections.abc import Iterable
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from agentchat.contracts import updates
from agentchat.contracts import wire as json
from agentchat.contracts.values import Cut, Source, Usage
from agentchat.gateway.protocols.openai import openai_errors
from agentchat.gateway.protocols.openai.citations import Citation, find_marks, list_citations
from agentchat.gateway.protocols.openai.responses import response_types
from agentchat.gateway.protocols.openai.responses.reasoning_output import ReasoningEvent, ReasoningOutput
from agentchat.gateway.runs.after_pause import AfterPause

_CUT: dict[Cut, str] = {"length": "max_output_tokens", "refusal": "content_filter"}
_BEFORE_ALL = -1
_AFTER_ALL = 2**62

I = TypeVar("I", bound=response_types.Item)  # noqa: E741 - an item


class ResponseOutput:
    """The run so far, as a response; after the event of the number `after` as a stream.

    With `after_pause` the calls were sent in the response before it.
    """

    def __init__(
        self,
        begun: response_types.Response,
        after: int = _BEFORE_ALL,
        after_pause: AfterPause | None = None,
        *,
        function: str | None = None,
    ) -> None:
        self._function = function
        self.response = begun
        self._after_pause = after_pause
        self._after = after
        self._number = _BEFORE_ALL
        self._round = 1
        self._sources: tuple[Source, ...] = ()
        self._cites_all = True  # the first text has all sources, those after it only what they cite
        self._message: int | None = None  # the place of the message that is open
        self._message_id = ""
        self._text: list[str] = []
        self._reasoning: ReasoningOutput | None = None
        self._calls: dict[str, int] = {}
        self._held: dict[str, updates.ToolStarted] = {}
        self._client_calls: set[str] = set()

    def encode(self, new: Iterable[updates.Update]) -> bytes:
        """Encode updates as events. Tool results have their outputs."""
        return b"".join(self._encode_update(update) for update in new)

    @property
    def so_far(self) -> response_types.Response:
        """The response with the text that is under way. No events may be encoded after this."""
        self._end_message("in_progress")
        return self.response

    def _encode_update(self, update: updates.Update) -> bytes:
        match update:
            case updates.TextUpdate() if self._function is not None:
                return self._call_function(self._function, update.text)
            case updates.TextUpdate():
                return self._encode_text(update.text)
            case updates.ReasoningUpdate():
                return self._encode_reasoning(update.text)
            case updates.Started():
                started = self.response
                return self._send("response.created", response=started) + self._send(
                    "response.in_progress", response=started
                )
            case updates.RetrievedSources():
                self._sources = update.sources
                return b""
            case updates.WarningUpdate() | updates.ToolProgressed():
                return b""
            case updates.ToolStarted(is_client=True):
                self._client_calls.add(update.call_id)
                return self._end_message()
            case updates.ToolEnded() if update.call_id in self._client_calls:
                return b""
            case updates.ToolStarted():
                # Clients take a call in the output for one that has run, whatever its status is.
                self._held.update({update.call_id: update} if update.needs_approval else {})
                return self._end_message() + (b"" if update.needs_approval else self._call(update))
            case updates.ToolEnded():
                return self._encode_return(update)
            case updates.NextRound():
                before = self._end_message()
                self._round = update.number
                return before
            case updates.Finished():
                return self._end_message() + self._finish(update)
            case updates.Broken(code="approval_required"):
                return self._end_message() + self._wait(update)
            case updates.Broken(code="client_tools_required"):
                return self._end_message() + self._wait_for_client(update)
            case updates.Broken(local=True):
                return self._break_off(update)
            case updates.Broken():
                return self._fail(update)

    def _send(self, kind: str, **fields: object) -> bytes:
        self._number += 1
        return b"" if self._number <= self._after else _encode_event(kind, self._number, fields)

    def _encode_reasoning(self, text: str) -> bytes:
        ended, begun = b"", b""
        if self._reasoning is None:
            ended = self._end_message()
            item_id = f"rs_{self.response.id.removeprefix('resp_')}_{self._round}"
            self._reasoning = ReasoningOutput(item_id, len(self.response.output))
            self._put(self._reasoning.item)
            begun = self._send_reasoning(self._reasoning.begin())
        return ended + begun + self._send_reasoning([self._reasoning.add(text)])

    def _end_reasoning(self, status: str) -> bytes:
        if self._reasoning is None:
            return b""
        ended, self._reasoning = self._reasoning, None
        events = ended.end(status)
        self._change(ended.index, response_types.ReasoningItem, summary=ended.item.summary, status=status)
        return self._send_reasoning(events) if status == "completed" else b""

    def _send_reasoning(self, events: Iterable[ReasoningEvent]) -> bytes:
        """Encode events that count for nothing; a client that continues from here gets the complete item."""
        number, after = self._number, self._after
        return b"".join(
            _encode_event(kind, number, fields)
            for kind, fields in events
            if number > after or (number == after and kind == "response.output_item.done")
        )

    def _encode_text(self, text: str) -> bytes:
        begun = self._begin_message() if self._message is None else b""
        assert self._message is not None
        self._text.append(text)
        before, self._number = self._number, self._number + len(text)
        if self._number <= self._after:
            return begun
        new = text[self._after - before :] if self._after > before else text
        return begun + _encode_event(
            "response.output_text.delta", self._number, {**self._place_part(), "delta": new, "logprobs": ()}
        )

    def _place_part(self) -> dict[str, object]:
        return {"output_index": self._message, "item_id": self._message_id, "content_index": 0}

    def _begin_message(self) -> bytes:
        ended = self._end_reasoning("completed")
        self._message, self._text = len(self.response.output), []
        self._message_id = f"msg_{self.response.id.removeprefix('resp_')}_{self._round}"
        data = ended + self._add(response_types.MessageItem(id=self._message_id, status="in_progress"))
        data += self._send(
            "response.content_part.added", **self._place_part(), part=response_types.OutputText(text="")
        )
        if self._cites_all:  # they had these places here once: a number is the same place at every release
            self._number += len(self._sources)
        return data

    def _call_function(self, function: str, arguments: str) -> bytes:
        """Encode a piece of the reply as arguments of the client's function."""
        begun = self._end_reasoning("completed")
        if self._message is None:
            self._message, self._text = len(self.response.output), []
            round_id = f"{self.response.id.removeprefix('resp_')}_{self._round}"
            self._message_id = f"fc_{round_id}"
            begun += self._add(
                response_types.FunctionCallItem(
                    id=self._message_id, call_id=f"call_{round_id}", name=function, status="in_progress"
                )
            )
        self._text.append(arguments)
        place = {"output_index": self._message, "item_id": self._message_id}
        return begun + self._send("response.function_call_arguments.delta", **place, delta=arguments)

    def _end_function(self, index: int, arguments: str, status: str = "completed") -> bytes:
        """End a call of a client's function or tool."""
        call = self._change(index, response_types.FunctionCallItem, status=status, arguments=arguments)
        if status != "completed":
            return b""
        place = {"output_index": index, "item_id": call.id}
        data = self._send(
            "response.function_call_arguments.done", **place, name=call.name, arguments=arguments
        )
        return data + self._send("response.output_item.done", output_index=index, item=call)

    def _end_message(self, status: str = "completed") -> bytes:
        """End the message or the reasoning that is open: at most one is."""
        if self._message is None:
            return self._end_reasoning(status)
        place, index, text = self._place_part(), self._message, "".join(self._text)
        if self._function is not None:
            self._message = None
            return self._end_function(index, text, status)
        found = (list_citations if self._cites_all else find_marks)(text, self._sources)
        part = response_types.OutputText(text=text, annotations=tuple(map(_to_cited_url, found)))
        self._message, self._cites_all = None, False
        item = self._change(index, response_types.MessageItem, status=status, content=(part,))
        if status != "completed":
            return b""
        data = b""
        for number, annotation in enumerate(part.annotations):
            note = {**place, "annotation_index": number, "annotation": annotation}
            data += self._send("response.output_text.annotation.added", **note)
        data += self._send("response.output_text.done", **place, text=part.text, logprobs=())
        data += self._send("response.content_part.done", **place, part=part)
        return data + self._send("response.output_item.done", output_index=index, item=item)

    def _call(self, call: updates.ToolStarted, approval_id: str | None = None) -> bytes:
        index = self._calls[call.call_id] = len(self.response.output)
        arguments = json.encode(call.input).decode()
        begun = response_types.McpCall(
            id=f"mcp_{call.call_id}",
            status="in_progress",
            name=call.name,
            arguments="",
            approval_request_id=approval_id,
        )
        place = {"output_index": index, "item_id": begun.id}
        data = self._add(begun)
        self._change(index, response_types.McpCall, arguments=arguments)
        data += self._send("response.mcp_call.in_progress", **place)
        return data + self._send("response.mcp_call_arguments.done", **place, arguments=arguments)

    def _encode_return(self, returned: updates.ToolEnded) -> bytes:
        begun = self._announce_call(returned.call_id) if returned.call_id not in self._calls else b""
        index, output = self._calls[returned.call_id], returned.output or "null"
        place = {"output_index": index, "item_id": f"mcp_{returned.call_id}"}
        if returned.is_error:
            error = response_types.CallError(
                content=({"type": "text", "text": json.decode_tool_error(output)},)
            )
            item = self._change(index, response_types.McpCall, status="failed", error=error)
            data = self._send("response.mcp_call.failed", **place)
        else:
            item = self._change(index, response_types.McpCall, status="completed", output=output)
            data = self._send("response.mcp_call.completed", **place)
        return begun + data + self._send("response.output_item.done", output_index=index, item=item)

    def _announce_call(self, call_id: str) -> bytes:
        """Encode a call that has waited, with the input that it ran with."""
        if call_id in self._held:
            return self._call(self._held[call_id])
        assert self._after_pause is not None
        call = self._after_pause.calls[call_id]
        return self._call(
            updates.ToolStarted(call_id, call.name, call.ran_input),
            self._after_pause.find_approval_id(call_id),
        )

    def _wait(self, waits: updates.Broken) -> bytes:
        """End the response with the approvals that are needed; another response continues.

        That one counts on from the place where the wait began, so its events use these numbers again.
        """
        data = b""
        waiting = {f"mcp_{call_id}" for call_id in waits.calls}
        for call_id in waits.calls:  # OpenAI's SDKs refuse a stream with an item that is never done
            if (index := self._calls.get(call_id)) is not None:
                item = self._change(index, response_types.McpCall, status="incomplete")
                data += self._send("response.output_item.done", output_index=index, item=item)
        for approval in waits.approvals:
            arguments = json.encode(approval.input).decode()
            asked = response_types.McpApprovalRequest(
                id=approval.id,
                name=approval.tool or "",
                arguments=arguments,
                elicitation=approval.elicitation or msgspec.UNSET,
            )
            index = len(self.response.output)
            data += self._add(asked)
            data += self._send("response.output_item.done", output_index=index, item=asked)
        # Clients take a call that is in the output for one that has run: the response after this one has it.
        output = tuple(each for each in self.response.output if each.id not in waiting)
        self.response = replace(
            self.response, status="completed", output=output, usage=_to_usage(waits.usage.total, waits.usage)
        )
        return data + self._send("response.completed", response=self.response)

    def _wait_for_client(self, waits: updates.Broken) -> bytes:
        """End the response with the calls that the client has to run; another response continues."""
        data = b""
        for call in waits.client_calls:
            arguments, index = json.encode(call.input).decode(), len(self.response.output)
            item = response_types.FunctionCallItem(
                id=f"fc_{call.id}", call_id=call.id, name=call.name, status="in_progress"
            )
            data += self._add(item)
            place = {"output_index": index, "item_id": item.id}
            data += self._send("response.function_call_arguments.delta", **place, delta=arguments)
            data += self._end_function(index, arguments)
        usage = _to_usage(waits.usage.total, waits.usage)
        self.response = replace(self.response, status="completed", usage=usage)
        return data + self._send("response.completed", response=self.response)

    def _finish(self, finished: updates.Finished) -> bytes:
        usage = _to_usage(finished.message.token_count, finished.usage)
        if finished.cut is None:
            self.response = replace(self.response, status="completed", usage=usage)
            return self._send("response.completed", response=self.response)
        details = response_types.Incomplete(reason=_CUT[finished.cut])
        self.response = replace(self.response, status="incomplete", usage=usage, incomplete_details=details)
        return self._send("response.incomplete", response=self.response)

    def _fail(self, broken: updates.Broken) -> bytes:
        """End the response as failed or cancelled. Open items become incomplete."""
        self._end_message("incomplete")
        for index in self._calls.values():
            call = self.response.output[index]
            if isinstance(call, response_types.McpCall) and call.status == "in_progress":
                self._change(index, response_types.McpCall, status="incomplete")
        error = openai_errors.build_error_event(broken.code, broken.message).error
        self.response = replace(
            self.response,
            status="cancelled" if broken.code in ("cancelled", "interrupted") else "failed",
            error=response_types.ResponseError(message=error.message, service_code=broken.code),
        )
        return self._send("response.failed", response=self.response)

    def _break_off(self, broken: updates.Broken) -> bytes:
        """End only this stream: the run continues.

        The number is no place in the run's stream, so nothing is lost. SDKs raise an event that has an
        `error`.
        """
        error = openai_errors.build_error_event(broken.code, broken.message).error
        fields = {"message": error.message, "code": error.code or "server_error", "param": None}
        return _encode_event("error", max(self._number, self._after, 0), {**fields, "error": error})

    def _add(self, item: response_types.Item) -> bytes:
        index = len(self.response.output)
        self._put(item)
        return self._send("response.output_item.added", output_index=index, item=item)

    def _put(self, item: response_types.Item) -> None:
        self.response = replace(self.response, output=(*self.response.output, item))

    def _change(self, index: int, kind: type[I], **changes: object) -> I:
        before = self.response.output
        item = before[index]
        assert isinstance(item, kind)
        changed = replace(item, **changes)
        after: tuple[response_types.Item, ...] = (*before[:index], changed, *before[index + 1 :])
        self.response = replace(self.response, output=after)
        return changed


def build_response(
    begun: response_types.Response,
    new: Iterable[updates.Update],
    after_pause: AfterPause | None = None,
    function: str | None = None,
) -> response_types.Response:
    """Build the response that these updates have made of `begun`."""
    output = ResponseOutput(begun, _AFTER_ALL, after_pause, function=function)
    output.encode(new)
    return output.so_far


def _encode_event(kind: str, number: int, fields: dict[str, object]) -> bytes:
    event = {"type": kind, "sequence_number": number, **fields}
    return b"event: " + kind.encode() + b"\n" + json.encode_sse(event)


def _to_cited_url(citation: Citation) -> response_types.CitedUrl:
    source, start, end = citation
    return response_types.CitedUrl(url=source.url, title=source.title, start_index=start, end_index=end)


def _to_usage(total: int, usage: Usage) -> response_types.ResponseUsage:
    return response_types.ResponseUsage(
        input_tokens=total - usage.output_tokens,
        input_tokens_details=response_types.InputDetails(
            cached_tokens=usage.cache_read_tokens, cache_write_tokens=usage.cache_creation_tokens
        ),
        output_tokens=usage.output_tokens,
        output_tokens_details=response_types.OutputDetails(reasoning_tokens=usage.reasoning_tokens or 0),
        total_tokens=total,
    )
