"""The canonical stream of a run: what a reader who kept up was told, out of the log. Pure.

It is the one order of a run's updates, live or not: of each round its text, in the pieces that it was sent
in, and then its calls and what they returned (docs/change/design.md 5).
"""

from collections.abc import Iterator, Sequence

from agentchat.contracts import http, sse, updates, wire
from agentchat.contracts.http import build_problem
from agentchat.contracts.values import Form, ToolCall
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.rounds import Round


def render_answer(run: Run, form: Form, conversation_id: str) -> bytes:
    """The bytes of the answer in a form: the events of a stream, or the one document of the JSON endpoint.

    Of a run under way: as much as the log has of the stream, and no document. A form that is another
    protocol's than these three is told as the document.
    """
    if form in sse.FORMS:
        return sse.Encoder(form, conversation_id, run.trace_id).encode(replay_updates(run))
    if run.state == "running":
        return b""
    last = build_last_update(run)
    if isinstance(last, updates.Broken):
        return wire.encode(build_problem(last.code, last.message, run.trace_id))
    return wire.encode(
        http.ChatReply(
            conversation_id=conversation_id, message=last.message, tool_calls=last.tool_calls or None
        )
    )


MOST_PIECES = 2_000
"""Pieces of text in a round as it is stored, and in a run as it is read again: more are joined."""


def thin_cuts(cuts: Sequence[int], step: int | None = None) -> tuple[int, ...]:
    """Every `step`-th cut; without one, so many that `MOST_PIECES` are left at most.

    A reader who comes back after a cut that is not there any more gets the rest of its piece.
    """
    step = step or -(-len(cuts) // MOST_PIECES) or 1
    return tuple(cuts[step - 1 :: step])


def replay_updates(run: Run) -> Iterator[updates.Update]:
    """Every update of the run from its start to its end, or as far as it is recorded.

    A model server may send its text in pieces of a character: one request for them all would hold a
    gateway for seconds. So a run has at most `MOST_PIECES` of text, and one more a round.
    """
    step = -(-sum(len(each.cuts) for each in run.rounds) // MOST_PIECES) or 1
    yield updates.Started()
    if run.sources is not None:
        yield updates.RetrievedSources(run.sources)
    for each in run.rounds:
        if each.number > 1:
            yield updates.NextRound(each.number)
        yield from _split_text(each, step)
        for call in each.calls:
            yield updates.ToolStarted(call.call_id, call.name, call.input)
        for call in each.calls:
            if call.output is not None:
                yield updates.ToolEnded(call.call_id, call.is_error, call.output)
    if run.state != "running":
        yield build_last_update(run)


def build_last_update(run: Run) -> updates.Finished | updates.Broken:
    if run.state == "completed" and run.reply is not None:
        return updates.Finished(run.reply, list_returned_calls(run), run.usage, run.cut)
    if run.state == "cancelled":
        return updates.CANCELLED
    return updates.Broken(run.code or "internal_error", run.detail or "")


def list_returned_calls(run: Run) -> tuple[ToolCall, ...]:
    """The calls that have returned, with what they were run with."""
    calls = (call for each in run.rounds for call in each.calls)
    return tuple(
        ToolCall(name=call.name, input=call.ran_input, output=call.output)
        for call in calls
        if call.output is not None
    )


def _split_text(each: Round, step: int) -> Iterator[updates.TextUpdate]:
    start = 0
    for end in (*thin_cuts(each.cuts, step), len(each.text)):
        if start < end:
            yield updates.TextUpdate(each.text[start:end])
            start = end
