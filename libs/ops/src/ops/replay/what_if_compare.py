"""A recorded run compared with the same run done again: what differs, and what each cost."""

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec

from contracts import wire
from contracts.messages import AskedTool, WhatIfAnswered, WhatIfOutcome
from contracts.values import Usage
from conversations.aggregate.conversation import Run, RunState
from ops.errors import SetupError

_MILLION = 1_000_000
_Amount = Annotated[float, msgspec.Meta(ge=0)]


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of a million tokens. Without a price for cached tokens, what used any has no known cost."""

    input: _Amount
    output: _Amount
    cache_read: _Amount | None = None
    cache_write: _Amount | None = None


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """By the name of the model, as agents have it."""

    models: dict[str, Price]
    currency: str = ""

    def cost(self, model: str, usage: Usage) -> float | None:
        """None where the table has no price for it."""
        price = self.models.get(model)
        if price is None:
            return None
        total = price.input * usage.input_tokens + price.output * usage.output_tokens
        for amount, tokens in (
            (price.cache_read, usage.cache_read_tokens),
            (price.cache_write, usage.cache_creation_tokens),
        ):
            if tokens and amount is None:
                return None
            total += (amount or 0.0) * tokens
        return total / _MILLION


def read_prices(path: Path) -> Prices:
    """The table in a file of JSON. Raises SetupError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Prices)
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SetupError(f"{path} is no price table: {error}") from None


_MESSAGE_CHARACTERS = 200


class RunFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Of one run. `cost` is None where no price is known; `seconds` leave out tools and approvals."""

    model: str
    rounds: int
    calls: int
    tokens: int
    cost: float | None
    seconds: float


class ComparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `alike` is the share of words that the answers have in common, from 0 to 1.

    `recorded_end` is how the recorded run ended; one that did not complete has the text so far as its answer.
    `missed` are the calls that the log held no result for; none was made. `diff` is there where asked for.
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
    diff: str | None = None

    @property
    def was_replayed(self) -> bool:
        """Whether anything is known of it; a run that failed is known to."""
        return self.outcome in ("completed", "failed")

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


def compared(
    conversation_id: str, recorded: Run, answer: WhatIfAnswered, prices: Prices | None, *, diff: bool
) -> ComparedRun:
    before = [
        AskedTool(round=each.number, name=call.name, input=call.input)
        for each in recorded.rounds
        for call in each.calls
    ]
    completed = answer.outcome == "completed"
    content = recorded.reply.content if recorded.reply is not None else recorded.text
    return ComparedRun(
        conversation_id=conversation_id,
        trace_id=recorded.trace_id,
        message=recorded.user_text[:_MESSAGE_CHARACTERS],
        recorded_end=recorded.state,
        outcome=answer.outcome,
        code=answer.code,
        detail=answer.detail,
        same_tools=_tools(before) == _tools(answer.calls),
        same_answer=completed and recorded.state == "completed" and content == answer.content,
        alike=_alike(content, answer.content),
        missed=tuple(_line(call) for call in answer.calls if call.missed),
        sources_missed=answer.sources_missed,
        recorded=_recorded_figures(recorded, prices),
        replayed=RunFigures(
            model=answer.model,
            rounds=answer.rounds,
            calls=len(answer.calls),
            tokens=answer.usage.total,
            cost=_cost(prices, answer.model, answer.usage),
            seconds=answer.ms / 1000,
        ),
        diff=_diff(_as_lines(before, content), _as_lines(answer.calls, answer.content)) if diff else None,
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


def _totals(figures: Sequence[RunFigures]) -> FiguresTotal:
    costs = [each.cost for each in figures if each.cost is not None]
    return FiguresTotal(
        tokens=sum(each.tokens for each in figures),
        cost=sum(costs) if figures and len(costs) == len(figures) else None,
        seconds=round(sum(each.seconds for each in figures), 3),
    )


def _recorded_figures(run: Run, prices: Prices | None) -> RunFigures:
    tools = sum(max((call.ms for call in each.calls), default=0) for each in run.rounds)  # side by side
    elapsed = datetime.fromisoformat(run.ended_at or run.requested_at) - datetime.fromisoformat(
        run.requested_at
    )
    return RunFigures(
        model=run.model,
        rounds=len(run.rounds),
        calls=sum(len(each.calls) for each in run.rounds),
        tokens=run.usage.total,
        cost=_cost(prices, run.model, run.usage),
        seconds=max(0.0, round(elapsed.total_seconds() - tools / 1000 - run.paused_seconds, 3)),
    )


def _cost(prices: Prices | None, model: str, usage: Usage) -> float | None:
    return prices.cost(model, usage) if prices is not None else None


def _tools(calls: Iterable[AskedTool]) -> list[tuple[int, str, bytes]]:
    """The calls of a round run side by side, so their order in it says nothing."""
    return sorted((call.round, call.name, wire.encode_canonical(call.input)) for call in calls)


def _alike(one: str, other: str) -> float:
    if one == other:
        return 1.0
    left, right = Counter(one.split()), Counter(other.split())
    return round(2 * (left & right).total() / max(1, left.total() + right.total()), 3)


def _as_lines(calls: Iterable[AskedTool], content: str) -> list[str]:
    """A run as lines: its calls, then its answer, a sentence each."""
    sentences = re.sub(r"(?<=[.!?]) (?=\S)", " \n", content).split("\n")
    return [*(_line(call) for call in calls), *sentences]


def _line(call: AskedTool) -> str:
    return f"{call.name} {_json(call.input)}"


def _json(value: Any) -> str:
    return wire.encode_canonical(value).decode()


def _diff(recorded: Sequence[str], replayed: Sequence[str]) -> str:
    """In the unified form; "" where both are the same."""
    return "\n".join(difflib.unified_diff(recorded, replayed, "recorded", "replayed", lineterm="", n=1))
