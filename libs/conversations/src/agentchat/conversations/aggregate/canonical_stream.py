"""Rebuild the canonical stream of a run from its events. Pure.

Live or not, a run's updates have one order: for each round its text, in the pieces in which it was sent, then
its calls and their results. The live counterpart is `gateway.runs.frames_to_updates.View`, which makes
updates of frames, with `gateway.runs.sent_updates.CallOrder`.
"""

from collections.abc import Iterator, Sequence

from agentchat.contracts import sse_encoder, updates, wire
from agentchat.contracts.http import build_problem
from agentchat.contracts.run_results import build_chat_reply
from agentchat.contracts.values import FinishedCall, Form
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.rounds import Call, Round


def render_answer(run: Run, form: Form, conversation_id: str) -> bytes:
    """Return the bytes of the answer in a form: the events of a stream, or the JSON document.

    For a run in progress this is as much as the log has of the stream, and no document. A form of another
    protocol is rendered as the document.
    """
    if form in sse_encoder.FORMS:
        return sse_encoder.Encoder(form, conversation_id, run.trace_id).encode(replay_updates(run))
    if run.state == "running":
        return b""
    last = build_last_update(run)
    if isinstance(last, updates.Broken):
        return wire.encode(
            build_problem(last.code, last.message, run.trace_id, conversation_id=conversation_id)
        )
    return wire.encode(build_chat_reply(conversation_id, last))


TOOL_FAILED = wire.encode_tool_error("The tool failed.")

MOST_PIECES = 2_000
"""The most pieces of text in a stored round, and in a run that is replayed.

More are joined.
"""


def thin_cuts(cuts: Sequence[int], step: int | None = None) -> tuple[int, ...]:
    """Return every `step`-th cut; by default, as many as leave at most `MOST_PIECES` pieces.

    A reader who reconnects at a cut that was dropped gets the rest of its piece.
    """
    step = step or -(-len(cuts) // MOST_PIECES) or 1
    return tuple(cuts[step - 1 :: step])


def replay_updates(run: Run, *, reasoning: bool = False) -> Iterator[updates.Update]:
    """Yield every update of the run from its start to its end, or as far as it is recorded.

    A model server may send its text character by character: replaying each piece would block a gateway for
    seconds. So a run has at most `MOST_PIECES` pieces of text, and one more a round. `reasoning`: the reader
    may have what the model thought.
    """
    step = -(-sum(len(each.cuts) for each in run.rounds) // MOST_PIECES) or 1
    yield updates.Started()
    if run.sources is not None:
        yield updates.RetrievedSources(run.sources)
    for place, each in enumerate(run.rounds):
        yield from _list_warnings(run, place)
        if each.number > 1:
            yield updates.NextRound(each.number)
        if reasoning and each.reasoning:
            yield updates.ReasoningUpdate(each.reasoning, each.number)
        yield from _split_text(each, step)
        for call in each.calls:
            yield updates.ToolStarted(
                call.call_id, call.name, call.input, call.needs_approval, call.is_client
            )
        for call in each.calls:
            if call.output is not None:
                yield updates.ToolEnded(call.call_id, call.is_error, get_client_output(call), call.files)
    yield from _list_warnings(run, len(run.rounds))
    if run.state != "running":
        yield build_last_update(run)


def has_reasoning(run: Run) -> bool:
    """Return True if the log has anything that the model thought in the run."""
    return any(each.reasoning for each in run.rounds)


def build_last_update(run: Run) -> updates.Finished | updates.Broken:
    """Return the update that ends the stream of a run that has ended."""
    if run.state == "completed" and run.reply is not None:
        calls = list_returned_calls(run)
        return updates.Finished(run.reply, calls, run.usage, run.cut, run.sources, get_changed_model(run))
    if run.state == "cancelled":
        return updates.REPLACED if run.code == "interrupted" else updates.CANCELLED
    return updates.Broken(run.code or "internal_error", run.detail or "")


def get_changed_model(run: Run) -> str | None:
    """Return the model that answers if it is a fall-back of the agent, else None."""
    return run.model if run.fallback else None


def list_returned_calls(run: Run) -> tuple[FinishedCall, ...]:
    """List the calls that have returned, with the inputs they ran with."""
    calls = (call for each in run.rounds for call in each.calls)
    return tuple(
        FinishedCall(
            name=call.name,
            input=call.ran_input,
            output=get_client_output(call),
            id=call.call_id,
            is_error=call.is_error,
        )
        for call in calls
        if call.output is not None
    )


def get_client_output(call: Call) -> str:
    """Return the output of a call that has returned, as clients get it.

    Instead of an error of the tool's server, often the text of an exception, they get a sentence.
    """
    if call.is_error and call.quotes_server:
        return TOOL_FAILED
    return call.output or "null"


def _list_warnings(run: Run, replies: int) -> Iterator[updates.WarningUpdate]:
    """Yield the warnings after this number of replies of the run."""
    for behind, warning in zip(run.warned_behind, run.warnings, strict=True):
        if behind == replies:
            yield updates.WarningUpdate(warning)


def _split_text(each: Round, step: int) -> Iterator[updates.TextUpdate]:
    start = 0
    for end in (*thin_cuts(each.cuts, step), len(each.text)):
        if start < end:
            yield updates.TextUpdate(each.text[start:end])
            start = end
