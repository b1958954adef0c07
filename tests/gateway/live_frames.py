"""Frames and runs for tests of the live view."""

import hashlib
import json
from typing import Any

from agentchat.contracts import frames, ids
from agentchat.contracts.examples import CONVERSATION, TRACE
from agentchat.contracts.updates import Finished, TextUpdate, Update
from agentchat.contracts.values import Message, Source, Usage
from agentchat.conversations.aggregate.conversation import Run
from agentchat.gateway.runs.frames_to_updates import View

ACCEPTED = frames.Accepted(seq=1, attempt=1, conversation_id="c")
SOURCE = Source(index=1, id="s", title="t", url="u", source_type="document", score=0.5, snippet="x")


def make_delta(seq: int, text: str, offset: int, attempt: int = 1) -> frames.DeltaFrame:
    return frames.DeltaFrame(seq=seq, attempt=attempt, round=1, text=text, offset=offset)


def make_alive(seq: int, attempt: int = 1) -> frames.Alive:
    return frames.Alive(seq=seq, attempt=attempt)


def make_message(content: str) -> Message:
    return Message(id="m", conversation_id="c", content=content, token_count=3, created_at="t")


def make_completed(seq: int, content: str, *, attempt: int = 1, **more: Any) -> frames.Completed:
    fields = {"tool_calls": 0} | more
    return frames.Completed(seq=seq, attempt=attempt, message=make_message(content), **fields)


def make_resumed(attempt: int, text: str, *, offset: int | None = None) -> frames.Resumed:
    return frames.Resumed(
        seq=1,
        attempt=attempt,
        conversation_id="c",
        offset=len(text) if offset is None else offset,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
    )


def make_called(seq: int, call_id: str = "call") -> frames.ToolCalledFrame:
    return frames.ToolCalledFrame(seq=seq, attempt=1, call_id=call_id, name="find", input={"q": 1}, round=1)


def make_returned(seq: int, call_id: str = "call") -> frames.ToolReturnedFrame:
    return frames.ToolReturnedFrame(seq=seq, attempt=1, call_id=call_id, is_error=False)


def run(**changes: object) -> Run:
    fields = {
        "trace_id": "t",
        "agent_id": "a",
        "user_message_id": "u",
        "user_text": "hi",
        "requested_at": "t",
        "attempt": 1,
    }
    return Run(**{**fields, **changes})  # type: ignore[arg-type]


def feed(view: View, *given: frames.Frame) -> list[Update]:
    return [update for frame in given for update in view.feed(frame)]


def join_text(updates: list[Update]) -> str:
    return "".join(update.text for update in updates if isinstance(update, TextUpdate))


def make_events(stream: bytes) -> list[Any]:
    """The data of a stream's events, each on a line of its own; `[DONE]` as it is."""
    *blocks, left = stream.decode().split("\n\n")
    assert left == ""
    lines = [block.rpartition("\n")[2] for block in blocks]
    assert all(line.startswith("data: ") and len(line.splitlines()) == 1 for line in lines)
    return ["[DONE]" if line == "data: [DONE]" else json.loads(line[6:]) for line in lines]


def make_finished(content: str, cut: Any = None) -> Finished:
    """The end of a reply of the examples' run, for 7 tokens in and 2 out."""
    reply = Message(
        id=ids.derive_reply_id(TRACE),
        conversation_id=CONVERSATION,
        content=content,
        token_count=9,
        created_at="",
    )
    return Finished(reply, (), Usage(input_tokens=7, output_tokens=2), cut)
