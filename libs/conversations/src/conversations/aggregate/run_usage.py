"""What runs cost, out of their events. Pure."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from contracts import events
from contracts.values import RunSpent, Usage
from conversations.aggregate.conversation import Conversation

MAX_SPENT = 500
"""So many runs of a conversation are kept apart in its ConversationErased, which is one event."""


class Tally(msgspec.Struct):
    """One run as far as its events were seen; `ended_at` and `state` are None until its end was."""

    conversation_id: str
    account_id: str
    agent_id: str = ""
    model: str = ""
    rounds: int = 0
    state: Literal["completed", "failed", "cancelled"] | None = None
    ended_at: str | None = None
    usage: Usage = Usage()


_SPENT = ("agent_id", "model", "state", "ended_at", "rounds", "usage")
"""What a tally and a RunSpent both have."""

TALLIED: frozenset[type[events.Fact]] = frozenset(
    {
        events.MessageSaved,
        events.RunStarted,
        events.ModelReplied,
        events.RunCompleted,
        events.RunFailed,
        events.RunCancelled,
        events.ConversationErased,
    }
)
"""What `tally` looks at; the other types change nothing."""


def tally(tallies: dict[str, Tally], conversation_id: str, account_id: str, event: events.Event) -> bool:
    """Take one more event into `tallies`, by trace_id; True if it erased its conversation.

    A run without an end is not counted, so nothing is left of one in an erased conversation. Nor is one that
    a fork has a copy of: it is counted where it was.
    """
    if event.inherited_from is not msgspec.UNSET:
        return False

    def run() -> Tally:
        return tallies.setdefault(event.trace_id, Tally(conversation_id, account_id))

    match event:
        case events.MessageSaved(role="user"):
            run().agent_id = event.agent_id
        case events.RunStarted():
            run().model = event.model
        case events.ModelReplied():
            run().rounds = max(run().rounds, event.round)
        case events.RunCompleted():
            run().rounds = event.rounds
            _end(run(), "completed", event.at, event.usage)
        case events.RunFailed():
            _end(run(), "failed", event.at, event.usage)
        case events.RunCancelled():
            _end(run(), "cancelled", event.at, event.usage)
        case events.ConversationErased():
            _erase(tallies, conversation_id, event)
            return True
        case _:
            pass
    return False


def spent_of(conversation: Conversation) -> tuple[RunSpent, ...]:
    """What the runs of a conversation cost that have ended: to be kept in its ConversationErased."""
    return tuple(
        RunSpent(
            trace_id=run.trace_id,
            agent_id=run.agent_id,
            model=run.model,
            state=run.state,
            ended_at=run.ended_at,
            rounds=max((each.number for each in run.rounds if each.blocks is not None), default=0),
            usage=run.usage,
        )
        for run in conversation.runs
        if run.state != "running" and run.ended_at is not None and not run.inherited
    )


def merged(spent: Sequence[RunSpent]) -> tuple[RunSpent, ...]:
    """The same tokens in fewer entries, where there are too many to be kept apart."""
    if len(spent) <= MAX_SPENT:
        return tuple(spent)
    groups: dict[tuple[str, str, str, str], RunSpent] = {}
    for each in sorted(spent, key=lambda each: each.ended_at):
        key = (each.agent_id, each.model, each.state, each.ended_at[:10])
        known = groups.get(key)
        groups[key] = (
            each
            if known is None
            else replace(
                each,
                rounds=known.rounds + each.rounds,
                usage=known.usage + each.usage,
                runs=known.runs + each.runs,
            )
        )
    return tuple(groups.values())


def spent_in(tallies: Mapping[str, Tally]) -> list[RunSpent]:
    return [
        RunSpent(trace_id=trace_id, **{name: getattr(each, name) for name in _SPENT})
        for trace_id, each in tallies.items()
        if each.state is not None and each.ended_at is not None
    ]


def _end(run: Tally, state: Literal["completed", "failed", "cancelled"], at: str, usage: Usage) -> None:
    run.state, run.ended_at, run.usage = state, at, usage


def _erase(tallies: dict[str, Tally], conversation_id: str, erased: events.ConversationErased) -> None:
    for trace_id in [key for key, run in tallies.items() if run.conversation_id == conversation_id]:
        if tallies[trace_id].ended_at is None:
            del tallies[trace_id]
    for spent in erased.spent:
        known = {name: getattr(spent, name) for name in _SPENT}
        tallies[spent.trace_id] = Tally(conversation_id, erased.account_id, **known)
