"""A recorded run compared with the same run done again: what differs, and what each cost."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from agentchat.contracts import wire
from agentchat.contracts.replay_messages import AskedTool, WhatIfAnswered, WhatIfOutcome
from agentchat.conversations.aggregate.conversation import Run, RunState
from agentchat.evals.prices import Prices

MESSAGE_CHARACTERS = 200


class RunFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Of one run. `cost` is None where no price is known; `seconds` leave out tools and approvals."""

    model: str
    rounds: int
    calls: int
    tokens: int
    cost: float | None
    seconds: float


class RunOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did: its tool calls, and its reply, or its text so far where it did not complete."""

    content: str
    calls: tuple[AskedTool, ...]


class ComparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `alike` is the share of words that the answers have in common, from 0 to 1.

    `recorded_end` is how the recorded run ended. `missed` is the call at which the replay stopped, as it was
    not recorded.
    """

    conversation_id: str
    trace_id: str
    message: str
    recorded_end: RunState
    outcome: WhatIfOutcome
    code: str | None
    detail: str | None
    same_tools: bool
    same_answer: bool
    alike: float
    missed: tuple[str, ...]
    sources_missed: bool
    recorded: RunFigures
    replayed: RunFigures
    before: RunOutput
    after: RunOutput

    @property
    def was_replayed(self) -> bool:
        """Return True if anything is known of it: also of a run that failed or diverged."""
        return self.outcome in ("completed", "failed", "diverged")

    @property
    def diverges(self) -> bool:
        """Whether the other version did something else."""
        return self.was_replayed and not (self.same_tools and self.same_answer)


class FiguresTotal(msgspec.Struct, frozen=True, kw_only=True):
    """Over all runs of which anything is known; `cost` is None unless it is known of each."""

    tokens: int
    cost: float | None
    seconds: float


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a replay, in numbers of runs, but for `conversations` and `missed` (calls)."""

    conversations: int
    replayed: int
    not_replayed: int
    diverging: int
    other_tools: int
    other_answer: int
    failed: int
    missed: int
    recorded: FiguresTotal
    again: FiguresTotal


def compared(conversation_id: str, recorded: Run, answer: WhatIfAnswered, prices: Prices) -> ComparedRun:
    before = recorded_output(recorded)
    return ComparedRun(
        conversation_id=conversation_id,
        trace_id=recorded.trace_id,
        message=recorded.user_text[:MESSAGE_CHARACTERS],
        recorded_end=recorded.state,
        outcome=answer.outcome,
        code=answer.code,
        detail=answer.detail,
        same_tools=_sorted(before.calls) == _sorted(_as_far(recorded, answer.calls)),
        same_answer=_same_end(recorded, before.content, answer),
        alike=_alike(before.content, answer.content),
        missed=tuple(call_line(call) for call in answer.calls if call.missed),
        sources_missed=answer.sources_missed,
        recorded=recorded_figures(recorded, prices),
        replayed=RunFigures(
            model=answer.model,
            rounds=answer.rounds,
            calls=len(answer.calls),
            tokens=answer.usage.total,
            cost=prices.cost(answer.model, answer.usage),
            seconds=answer.ms / 1000,
        ),
        before=before,
        after=RunOutput(content=answer.content, calls=answer.calls),
    )


def summarised(done: Sequence[ComparedRun]) -> Summary:
    known = [each for each in done if each.was_replayed]
    return Summary(
        conversations=len({each.conversation_id for each in done}),
        replayed=len(known),
        not_replayed=len(done) - len(known),
        diverging=sum(each.diverges for each in known),
        other_tools=sum(not each.same_tools for each in known),
        other_answer=sum(not each.same_answer for each in known),
        failed=sum(each.outcome == "failed" for each in known),
        missed=sum(len(each.missed) for each in known),
        recorded=_totals([each.recorded for each in known]),
        again=_totals([each.replayed for each in known]),
    )


def seconds_of(run: Run) -> float:
    """How long a recorded run took, without its tools and what people took to decide."""
    tools = sum(max((call.ms for call in each.calls), default=0) for each in run.rounds)  # side by side
    elapsed = datetime.fromisoformat(run.ended_at or run.requested_at) - datetime.fromisoformat(
        run.requested_at
    )
    return max(0.0, round(elapsed.total_seconds() - tools / 1000 - run.paused_seconds, 3))


def call_line(call: AskedTool) -> str:
    """A tool call in a line: its name and its input as JSON."""
    return f"{call.name} {wire.encode_canonical(call.input).decode()}"


def known_total(costs: Sequence[float | None]) -> float | None:
    """None unless there are some, and each is known."""
    known = [each for each in costs if each is not None]
    return sum(known) if costs and len(known) == len(costs) else None


def counted_overlap(one: Counter[str], other: Counter[str]) -> float:
    """The share of words that two texts have in common, from 0 to 1, each of its own count: Dice's."""
    both = one.total() + other.total()
    return 2 * (one & other).total() / both if both else 1.0


def _totals(figures: Sequence[RunFigures]) -> FiguresTotal:
    return FiguresTotal(
        tokens=sum(each.tokens for each in figures),
        cost=known_total([each.cost for each in figures]),
        seconds=round(sum(each.seconds for each in figures), 3),
    )


def recorded_output(run: Run) -> RunOutput:
    calls = tuple(
        AskedTool(round=each.number, name=call.name, input=call.input)
        for each in run.rounds
        for call in each.calls
    )
    return RunOutput(content=run.reply.content if run.reply is not None else run.text, calls=calls)


def recorded_figures(run: Run, prices: Prices) -> RunFigures:
    return RunFigures(
        model=run.model,
        rounds=len(run.rounds),
        calls=sum(len(each.calls) for each in run.rounds),
        tokens=run.usage.total,
        cost=prices.cost(run.model, run.usage),
        seconds=seconds_of(run),
    )


def call_key(call: AskedTool) -> tuple[int, str, bytes]:
    """Orders calls: those of a round run side by side, so their order in it says nothing."""
    return call.round, call.name, wire.encode_canonical(call.input)


def _sorted(calls: Iterable[AskedTool]) -> list[tuple[int, str, bytes]]:
    return sorted(map(call_key, calls))


def _same_end(recorded: Run, content: str, answer: WhatIfAnswered) -> bool:
    """A run that failed is the same where it fails so again; one that was cancelled, as far as it went."""
    match recorded.state:
        case "completed":
            return answer.outcome == "completed" and content == answer.content
        case "failed":
            return answer.outcome == "failed" and (recorded.code, content) == (answer.code, answer.content)
        case _:
            return answer.content.startswith(content)


def _as_far(recorded: Run, calls: Sequence[AskedTool]) -> Sequence[AskedTool]:
    """Of a run that was cancelled, the calls of the rounds that it had."""
    if recorded.state != "cancelled":
        return calls
    last = max((each.number for each in recorded.rounds if each.calls), default=0)
    return [call for call in calls if call.round <= last]


def _alike(one: str, other: str) -> float:
    return 1.0 if one == other else round(counted_overlap(Counter(one.split()), Counter(other.split())), 3)
