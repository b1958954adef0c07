"""Decide which runs of a long thread the model is shown as a summary. Pure.

A summary ends where a run begins, never between a tool call and its result. Only the model sees it; everyone
else sees the whole conversation.
"""

import msgspec

from agentchat.contracts import events
from agentchat.contracts.values import ShownMessage
from agentchat.conversations.aggregate.conversation import Conversation, Run

Opening = tuple[ShownMessage, ...] | events.ContextCompacted
"""The messages, or the summary, that precede the first run that the model is shown in full."""

BYTES_A_TOKEN = 4
"""Bytes of a token in text that no model has counted yet.

Right for English, too high for most other languages.
"""


class Compact(msgspec.Struct, frozen=True):
    """Summarise the first `runs` runs that are shown in full; append ContextCompacted."""

    runs: int


def find_run_index(trace_id: str, runs: tuple[Run, ...]) -> int:
    """Return the index of a run; nearly always it is the last."""
    return next(place for place in range(len(runs) - 1, -1, -1) if runs[place].trace_id == trace_id)


def find_opening(conversation: Conversation, place: int) -> tuple[Opening, int]:
    """Return the opening of a run's prompt, and the index of the first run after it."""
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
    """Return the version before the run that follows the first `runs` of those shown in full."""
    _, first = find_opening(conversation, find_run_index(trace_id, conversation.runs))
    return conversation.runs[first + runs].version - 1


def plan_compaction(
    conversation: Conversation, trace_id: str, *, tokens: float, keep_runs: int
) -> Compact | None:
    """Return what to summarise before the run's next model call.

    Returns None if fewer than `tokens` are expected. The last `keep_runs` runs before it are kept as they
    are. At least as many must have been added since the last summary, so that large runs do not cause a
    summary each.
    """
    place = find_run_index(trace_id, conversation.runs)
    if _estimate_tokens(conversation.runs, place) < tokens:
        return None
    _, first = find_opening(conversation, place)
    runs = place - keep_runs - first
    return Compact(runs) if runs >= max(1, keep_runs) else None


def plan_smaller_prompt(conversation: Conversation, trace_id: str, *, keep_runs: int) -> Compact | None:
    """Return what to summarise of a prompt that the model refused as too long.

    Returns None if nothing is left.
    """
    place = find_run_index(trace_id, conversation.runs)
    _, first = find_opening(conversation, place)
    earlier = place - first
    runs = earlier - keep_runs if earlier > keep_runs else earlier
    return Compact(runs) if runs else None


def _estimate_tokens(runs: tuple[Run, ...], place: int) -> int:
    """Estimate the tokens of the next call.

    The sum has the tokens of the last reply and its prompt, and of what was added since. It is 0 if there was
    no reply since the last summary.
    """
    waiting = files = 0
    for run in reversed(runs[: place + 1]):
        replies = run.replies
        if replies[run.compacted_behind :]:
            last = replies[-1]
            outputs = sum(len((call.output or "").encode()) for call in last.calls)
            files += sum(file.estimated_tokens for call in last.calls for file in call.files)
            return last.usage.total + files + (waiting + outputs) // BYTES_A_TOKEN
        if run.compacted is not None:
            return 0
        waiting += len(run.user_text.encode())
        files += sum(file.estimated_tokens for file in run.attachments)
    return 0
