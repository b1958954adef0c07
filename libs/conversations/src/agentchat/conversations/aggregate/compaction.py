"""What of a long thread the model is shown as a summary, and when there is to be another one. Pure.

A summary ends where a run begins: never between a tool call and its result. Only the model is shown it; for
everybody else the conversation stays as it is.
"""

import msgspec

from agentchat.contracts import events
from agentchat.contracts.values import ShownMessage
from agentchat.conversations.aggregate.conversation import Conversation, Run

Opening = tuple[ShownMessage, ...] | events.ContextCompacted
"""What the model is shown before the first run that it is shown itself."""

BYTES_A_TOKEN = 4
"""Of texts that no model has counted yet: so many of English, fewer of most others."""


class Compact(msgspec.Struct, frozen=True):
    """Have the first `runs` of those summarised that are shown themselves, and append ContextCompacted."""

    runs: int


def find_run_index(trace_id: str, runs: tuple[Run, ...]) -> int:
    """The place of a run; nearly always it is the last."""
    return next(place for place in range(len(runs) - 1, -1, -1) if runs[place].trace_id == trace_id)


def find_opening(conversation: Conversation, place: int) -> tuple[Opening, int]:
    """What stands before all that the run at `place` is shown, and the place of the first run after it."""
    compacted = next(
        (run.compacted for run in reversed(conversation.runs[: place + 1]) if run.compacted), None
    )
    if compacted is None:
        return conversation.seed, 0
    first = place
    while first > 0 and conversation.runs[first - 1].version > compacted.through_version:
        first -= 1
    return compacted, first


def find_last_covered_version(conversation: Conversation, trace_id: str, runs: int) -> int:
    """The version before that of the run which follows the first `runs` of those that are shown."""
    _, first = find_opening(conversation, find_run_index(trace_id, conversation.runs))
    return conversation.runs[first + runs].version - 1


def plan_compaction(
    conversation: Conversation, trace_id: str, *, tokens: float, keep_runs: int
) -> Compact | None:
    """What is to be summarised before the run's next model call; None where that is expected below `tokens`.

    `keep_runs` earlier ones stay as they are. So many must have come at least since the last summary: where
    they are large, there is not to be a summary in each run.
    """
    place = find_run_index(trace_id, conversation.runs)
    if _estimate_tokens(conversation.runs, place) < tokens:
        return None
    _, first = find_opening(conversation, place)
    runs = place - keep_runs - first
    return Compact(runs) if runs >= max(1, keep_runs) else None


def plan_smaller_prompt(conversation: Conversation, trace_id: str, *, keep_runs: int) -> Compact | None:
    """What can be summarised of a prompt that the model did not take: all that is to be, or all there is."""
    place = find_run_index(trace_id, conversation.runs)
    _, first = find_opening(conversation, place)
    earlier = place - first
    runs = earlier - keep_runs if earlier > keep_runs else earlier
    return Compact(runs) if runs else None


def _estimate_tokens(runs: tuple[Run, ...], place: int) -> int:
    """Tokens of the next call: those of the last reply, with what it read, and of what has come since.

    0 where nothing was replied since the last summary.
    """
    waiting = 0
    for run in reversed(runs[: place + 1]):
        replies = run.replies
        if replies[run.compacted_behind :]:
            last = replies[-1]
            outputs = sum(len((call.output or "").encode()) for call in last.calls)
            return last.usage.total + (waiting + outputs) // BYTES_A_TOKEN
        if run.compacted is not None:
            return 0
        waiting += len(run.user_text.encode())
    return 0
