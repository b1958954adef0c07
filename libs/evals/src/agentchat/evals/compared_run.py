"""Compare a recorded run with its replay: what differs, and what each cost."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from agentchat.contracts import wire
from agentchat.contracts.replay_messages import AskedTool, WhatIfAnswered, WhatIfOutcome
from agentchat.conversations.aggregate.conversation import Run, RunState
from agentchat.conversations.aggregate.model_calls import RecordedCall
from agentchat.runtime.prices import Prices

MESSAGE_CHARACTERS = 200


class RunFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one run. `cost` is None if no price is known; `seconds` exclude tools and approvals."""

    model: str
    rounds: int
    calls: int
    tokens: int
    cost: float | None
    seconds: float


class RunOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The tool calls of a run and its reply, or its text so far if it did not complete."""

    content: str
    calls: tuple[AskedTool, ...]


class ComparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded run and its replay. `alike` is the share of words in common, from 0 to 1.

    `recorded_end` is how the recorded run ended. `missed` is the unrecorded call at which the replay stopped.
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
        """True if the replay has a result, also if it failed or diverged."""
        return self.outcome in ("completed", "failed", "diverged")

    @property
    def diverges(self) -> bool:
        """True if the other version did something else."""
        return self.was_replayed and not (self.same_tools and self.same_answer)


class FiguresTotal(msgspec.Struct, frozen=True, kw_only=True):
    """Totals over all replayed runs; `cost` is None unless that of each is known."""

    tokens: int
    cost: float | None
    seconds: float


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a replay in numbers of runs, except `conversations` and `missed` (calls)."""

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


def compare_run(conversation_id: str, recorded: Run, answer: WhatIfAnswered, prices: Prices) -> ComparedRun:
    """Compare a recorded run with a replay's answer."""
    before = get_recorded_output(recorded)
    return ComparedRun(
        conversation_id=conversation_id,
        trace_id=recorded.trace_id,
        message=recorded.user_text[:MESSAGE_CHARACTERS],
        recorded_end=recorded.state,
        outcome=answer.outcome,
        code=answer.code,
        detail=answer.detail,
        same_tools=_sort_calls(before.calls) == _sort_calls(_cut_calls(recorded, answer.calls)),
        same_answer=_is_same_end(recorded, before.content, answer),
        alike=_compute_similarity(before.content, answer.content),
        missed=tuple(format_call(call) for call in answer.calls if call.missed),
        sources_missed=answer.sources_missed,
        recorded=get_recorded_figures(recorded, prices),
        replayed=RunFigures(
            model=answer.model,
            rounds=answer.rounds,
            calls=len(answer.calls),
            tokens=answer.usage.total,
            cost=prices.compute_cost(answer.model, answer.usage),
            seconds=answer.ms / 1000,
        ),
        before=before,
        after=RunOutput(content=answer.content, calls=answer.calls),
    )


def summarize(done: Sequence[ComparedRun]) -> Summary:
    """Add up compared runs."""
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
        recorded=_sum_figures([each.recorded for each in known]),
        again=_sum_figures([each.replayed for each in known]),
    )


def measure_seconds(run: Run) -> float:
    """Return how long a recorded run took, without its tools and the time people took to decide."""
    tools = sum(max((call.ms for call in each.calls), default=0) for each in run.rounds)  # side by side
    elapsed = datetime.fromisoformat(run.ended_at or run.requested_at) - datetime.fromisoformat(
        run.requested_at
    )
    return max(0.0, round(elapsed.total_seconds() - tools / 1000 - run.paused_seconds, 3))


def compute_recorded_cost(
    calls: Sequence[RecordedCall], prices: Prices, model: str | None = None
) -> float | None:
    """Return what recorded calls cost at today's prices, each by its model or all by `model`."""
    costs = [prices.compute_cost(model or call.model, call.usage) for call in calls if call.usage.total]
    return sum_costs(costs) if costs else 0.0


def format_call(call: AskedTool) -> str:
    """Return a tool call on one line: its name and its input as JSON."""
    return f"{call.name} {wire.encode_canonical(call.input).decode()}"


def sum_costs(costs: Sequence[float | None]) -> float | None:
    """Add up costs; None unless there are some and each is known."""
    known = [each for each in costs if each is not None]
    return sum(known) if costs and len(known) == len(costs) else None


def compute_overlap(one: Counter[str], other: Counter[str]) -> float:
    """Return the share of common words of two texts, from 0 to 1, by their counts (Dice's coefficient)."""
    both = one.total() + other.total()
    return 2 * (one & other).total() / both if both else 1.0


def _sum_figures(figures: Sequence[RunFigures]) -> FiguresTotal:
    return FiguresTotal(
        tokens=sum(each.tokens for each in figures),
        cost=sum_costs([each.cost for each in figures]),
        seconds=round(sum(each.seconds for each in figures), 3),
    )


def get_recorded_output(run: Run) -> RunOutput:
    """Return the calls and the reply of a recorded run."""
    calls = tuple(
        AskedTool(round=each.number, name=call.name, input=call.input)
        for each in run.rounds
        for call in each.calls
    )
    return RunOutput(content=run.reply.content if run.reply is not None else run.text, calls=calls)


def get_recorded_figures(run: Run, prices: Prices) -> RunFigures:
    """Return the figures of a recorded run."""
    return RunFigures(
        model=run.model,
        rounds=len(run.rounds),
        calls=sum(len(each.calls) for each in run.rounds),
        tokens=run.usage.total,
        cost=compute_recorded_cost(run.model_calls, prices),
        seconds=measure_seconds(run),
    )


def get_sort_key(call: AskedTool) -> tuple[int, str, bytes]:
    """Return a key that orders calls: those of a round run side by side, so their order says nothing."""
    return call.round, call.name, wire.encode_canonical(call.input)


def _sort_calls(calls: Iterable[AskedTool]) -> list[tuple[int, str, bytes]]:
    return sorted(map(get_sort_key, calls))


def _is_same_end(recorded: Run, content: str, answer: WhatIfAnswered) -> bool:
    """Return True if both ended the same: the same failure, or the same text up to a cancelled run's end."""
    match recorded.state:
        case "completed":
            return answer.outcome == "completed" and content == answer.content
        case "failed":
            return answer.outcome == "failed" and (recorded.code, content) == (answer.code, answer.content)
        case _:
            return answer.content.startswith(content)


def _cut_calls(recorded: Run, calls: Sequence[AskedTool]) -> Sequence[AskedTool]:
    """Return the calls; for a cancelled run only those of the rounds that it had."""
    if recorded.state != "cancelled":
        return calls
    last = max((each.number for each in recorded.rounds if each.calls), default=0)
    return [call for call in calls if call.round <= last]


def _compute_similarity(one: str, other: str) -> float:
    return 1.0 if one == other else round(compute_overlap(Counter(one.split()), Counter(other.split())), 3)
