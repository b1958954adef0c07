"""A run that has ended, told again out of the log as it was told live. Pure."""

from collections.abc import Iterator

from contracts.values import ToolCall
from conversations.conversation import Round, Run
from gateway.updates import CANCELLED, Broken, Finished, Sources, Started, Text, ToolStarted, Update


def retold(run: Run) -> Iterator[Update]:
    """Every update of the run from its start to its end, the text in the pieces that it was sent in."""
    yield Started()
    if run.sources is not None:
        yield Sources(run.sources)
    for each in run.rounds:
        yield from _pieces(each)
        for call in each.calls:
            yield ToolStarted(call.call_id, call.name, call.input)
    yield end_of(run)


def end_of(run: Run) -> Finished | Broken:
    """The last update of a run that has ended."""
    if run.state == "completed" and run.reply is not None:
        calls = (call for each in run.rounds for call in each.calls)
        ran = (
            ToolCall(name=call.name, input=call.input, output=call.output)
            for call in calls
            if call.output is not None
        )
        return Finished(run.reply, tuple(ran))
    if run.state == "cancelled":
        return CANCELLED
    return Broken(run.code or "internal_error", run.detail or "")


def _pieces(each: Round) -> Iterator[Text]:
    start = 0
    for end in (*each.cuts, len(each.text)):
        if start < end:
            yield Text(each.text[start:end])
            start = end
