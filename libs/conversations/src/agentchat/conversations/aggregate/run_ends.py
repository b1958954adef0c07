"""End a run without a reply: as failed, or as cancelled. Pure.

Its text is saved as an interrupted reply: the model sees it later, so its readers do too.
"""

from collections.abc import Sequence

import msgspec

from agentchat.contracts import events, wire
from agentchat.contracts.ids import derive_reply_id
from agentchat.contracts.values import UnfinishedReply, Usage
from agentchat.conversations.aggregate import approval_rules
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.rounds import update_fields


def fail(
    run: Run,
    code: str,
    message: str,
    now: str,
    unfinished: UnfinishedReply | None = None,
    provider_message: str | None = None,
) -> tuple[events.Event, ...]:
    """Return the end of a run without a reply; () if it has ended.

    `code` is one of `contracts.errors`. `unfinished` is the model call under way, which the run lacks.
    """
    if run.state != "running":
        return ()
    failed = events.RunFailed(
        trace_id=run.trace_id,
        at=now,
        code=code,
        message=message,
        usage=_add_usage(run, unfinished),
        provider_message=provider_message or None,
        unfinished=unfinished or msgspec.UNSET,
    )
    return (*approval_rules.withdraw_approvals(run, now), failed)


def cancel(
    run: Run, now: str, unfinished: UnfinishedReply | None = None, *, interrupted_by: str | None = None
) -> tuple[events.Event, ...]:
    """Return the end of a run that its caller cancelled; () if it has ended.

    `unfinished` as for `fail`. `interrupted_by`: the trace of the message that takes its place. Its open
    calls get a result then: a reader of the next run sees what became of them.
    """
    if run.state != "running":
        return ()
    cancelled = events.RunCancelled(
        trace_id=run.trace_id,
        at=now,
        usage=_add_usage(run, unfinished),
        unfinished=unfinished or msgspec.UNSET,
        interrupted_by=interrupted_by or msgspec.UNSET,
    )
    closed = () if interrupted_by is None else _close_calls(run, now)
    return (*approval_rules.withdraw_approvals(run, now), *closed, cancelled)


def _add_usage(run: Run, unfinished: UnfinishedReply | None) -> Usage:
    return run.usage if unfinished is None else run.usage + unfinished.usage


def _close_calls(run: Run, now: str) -> tuple[events.ToolReturned, ...]:
    """Return an error as the result of each call that has none."""
    return tuple(
        events.ToolReturned(
            trace_id=run.trace_id,
            at=now,
            round=last.number,
            call_id=call.call_id,
            output=wire.encode_tool_error(approval_rules.describe_missing_result(call)),
            is_error=True,
            ms=0,
        )
        for last in run.rounds[-1:]
        for call in last.calls
        if call.output is None
    )


def save_interrupted_reply(
    run: Run, streamed: Sequence[events.Delta], end: Sequence[events.Event]
) -> tuple[events.Event, ...]:
    """Return the events of a failed or cancelled run's end, with its text as an interrupted reply.

    `streamed` is text that is not recorded yet; the last event of `end` ends the run.
    """
    rounds = run.rounds
    for delta in streamed:
        rounds = update_fields(rounds, delta.round, text=delta.text)
    text = "".join(each.text for each in rounds)
    if not end or not text.strip():
        return (*streamed, *end)
    *before, last = end
    assert isinstance(last, events.RunFailed | events.RunCancelled), "it ends without a reply"
    saved = events.MessageSaved(
        trace_id=run.trace_id,
        at=last.at,
        message_id=derive_reply_id(run.trace_id),
        role="assistant",
        agent_id=run.agent_id,
        content=text,
        token_count=last.usage.total,
        interrupted=True,
    )
    return (*streamed, *before, saved, last)
