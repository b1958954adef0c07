"""Compare two versions of an agent over the time in which both answered: better, worse, or undecided.

The unit is the conversation, since all its runs go to one version and resemble each other: each counts once,
with the mean of its runs. One statement adds up counts, means and variances; `evals.statistics` decides.
"""

from collections.abc import Sequence
from math import ceil
from typing import Literal

import msgspec

from agentchat.administration.agent_rows import AgentRow
from agentchat.administration.row_pages import fetch_all
from agentchat.evals.statistics import (
    LEAST,
    Bounds,
    Difference,
    Sample,
    State,
    compare_unpaired,
    decide_states,
)
from agentchat.runtime.postgres import Connection

MOST_RUNS = 10_000
"""The runs of a version, about; of more, only a share is compared, since a statement may take 5 s."""
_MOST_NEEDED = 1_000_000
_DECIDES = 2.8
"""Standard errors at which four of five comparisons decide."""

Decision = Literal["worse", "better", "same", "undecided"]


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure to compare. `tolerated` is in its unit, or without `bounds` a share of the mean."""

    name: str
    higher_is_better: bool
    tolerated: float
    bounds: Bounds | None = None


FIGURES = (
    Figure(name="completed", higher_is_better=True, bounds=(0, 1), tolerated=0.05),
    Figure(name="rating", higher_is_better=True, bounds=(-1, 1), tolerated=0.1),
    Figure(name="tool_errors", higher_is_better=False, bounds=(0, 1), tolerated=0.05),
    Figure(name="seconds", higher_is_better=False, tolerated=0.1),
    Figure(name="tokens", higher_is_better=False, tolerated=0.1),
    Figure(name="cost", higher_is_better=False, tolerated=0.1),
)


class FigureComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of both versions, over the conversations for which it is known.

    `difference` is after less before, between `low` and `high` with 95 % (None: too few are known). All are
    in the figure's unit: shares from 0 to 1, ratings from -1 to 1, seconds, tokens and cost of a run. `more`
    conversations of the later version would decide it, if the difference stays as it is; None: it is decided,
    or too many are needed.
    """

    figure: str
    state: State
    before_count: int
    after_count: int
    before: float
    after: float
    difference: float
    low: float | None
    high: float | None
    tolerated: float
    more: int | None = None

    @property
    def title(self) -> str:
        """The figure's name with spaces."""
        return self.figure.replace("_", " ")

    @property
    def interval(self) -> str:
        """The 95 % interval as `-1.2% to +0.4%`; empty if unknown."""
        if self.low is None or self.high is None:
            return ""
        return f"{self.format_value(self.low, '+')} to {self.format_value(self.high, '+')}"

    def format_value(self, value: float, sign: Literal["", "+"] = "") -> str:
        """Write a value of the figure, or with a sign a difference."""
        match self.figure:
            case "tokens":
                return f"{value:{sign},.0f}"
            case "cost":
                return f"{value:{sign}.4g}"
            case "rating" | "seconds":
                return f"{value:{sign}.2f}"
            case _:
                return f"{value:{sign}.1%}"


class VersionVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The decision of a comparison, with its reasons.

    `worse`: a figure is worse. `undecided`: a figure is undecided and none is worse. `better`: a figure is
    better and all are decided. `same`: no figure is worse or better. `more` is the largest of the figures.
    """

    decision: Decision
    reasons: tuple[str, ...]
    comparisons: tuple[FigureComparison, ...] = ()
    more: int | None = None


class FigureSample(msgspec.Struct, frozen=True):
    """A figure of a version, known for `count` of its `conversations`."""

    version: int
    conversations: int
    figure: str
    count: int
    mean: float | None
    variance: float | None

    @property
    def sample(self) -> Sample:
        """The figure as a sample for statistics."""
        return Sample(count=self.count, mean=self.mean or 0.0, variance=self.variance or 0.0)


_NOTHING = FigureSample(0, 0, "completed", 0, None, None)


async def compare(conn: Connection, row: AgentRow, *, before: int, after: int, since: str) -> VersionVerdict:
    """Compare by the newest runs that were requested since then, while both versions answered."""
    named = {
        "agent": row.agent_id,
        "account": row.account_id,
        "since": since,
        "versions": [before, after],
        "most": MOST_RUNS,
    }
    found = await fetch_all(conn, FigureSample, _SAMPLES, named)
    if not all(each.count == each.conversations for each in found if each.figure == "cost"):
        found = [each for each in found if each.figure != "cost"]  # a run has no price
    sides = ([each for each in found if each.version == version] for version in (before, after))
    return decide(*sides)


def decide(before: Sequence[FigureSample], after: Sequence[FigureSample]) -> VersionVerdict:
    """Decide by the figures that both versions have."""
    sides = [{"completed": _NOTHING} | {each.figure: each for each in side} for side in (before, after)]
    pairs = [
        (figure, sides[0][figure.name], sides[1][figure.name])
        for figure in FIGURES
        if figure.name in sides[0] and figure.name in sides[1]
    ]
    found = [
        compare_unpaired(
            old.sample,
            new.sample,
            figure.tolerated,
            higher_is_better=figure.higher_is_better,
            bounds=figure.bounds,
        )
        for figure, old, new in pairs
    ]
    comparisons = tuple(
        _build_comparison(figure.name, old, new, difference, state)
        for (figure, old, new), difference, state in zip(pairs, found, decide_states(found), strict=True)
    )
    decision, deciding = _decide(comparisons)
    needed = [each.more for each in deciding]
    return VersionVerdict(
        decision=decision,
        reasons=tuple(map(_describe_reason, deciding)),
        comparisons=comparisons,
        more=max((each for each in needed if each), default=None) if None not in needed else None,
    )


def _build_comparison(
    name: str, before: FigureSample, after: FigureSample, found: Difference, state: State
) -> FigureComparison:
    return FigureComparison(
        figure=name,
        state=state,
        before_count=before.count,
        after_count=after.count,
        before=found.before,
        after=found.after,
        difference=found.value,
        low=found.low,
        high=found.high,
        tolerated=found.tolerated,
        more=_estimate_needed(state, found, after),
    )


def _estimate_needed(state: State, found: Difference, after: FigureSample) -> int | None:
    """Estimate the conversations needed to decide, if the figure stays as rarely known as it is."""
    if state == "too_few":
        missing: float = max(0, LEAST - after.count)
    elif state == "undecided" and found.margin:
        missing = after.count * ((_DECIDES / found.margin) ** 2 - 1)
    else:
        return None
    needed = ceil(missing * after.conversations / after.count) if after.count else ceil(missing)
    return needed if 0 < needed <= _MOST_NEEDED else None


def _decide(found: Sequence[FigureComparison]) -> tuple[Decision, list[FigureComparison]]:
    """Return the decision and the figures that it follows from.

    A rarely known figure, such as a rating, decides nothing until it is known for enough conversations;
    `completed` is required.
    """
    if worse := [each for each in found if each.state == "worse"]:
        return "worse", worse
    waiting = [
        each
        for each in found
        if each.state == "undecided" or (each.state == "too_few" and each.figure == "completed")
    ]
    if waiting:
        return "undecided", waiting
    better = [each for each in found if each.state == "better"]
    return ("better", better) if better else ("same", [])


def _describe_reason(each: FigureComparison) -> str:
    if each.state == "too_few":
        counts = f"{each.before_count:,} and {each.after_count:,} conversations"
        return f"{each.title} is known of {counts}, and {LEAST} of each version are needed"
    return (
        f"{each.title} is {each.state}: {each.format_value(each.before)} to {each.format_value(each.after)}, "
        f"95 % interval of the difference {each.interval}"
    )


_SAMPLES = """
WITH days AS (
    SELECT agent_version AS version, day, sum(runs) AS runs FROM usage_by_day
     WHERE account_id = %(account)s AND agent_id = %(agent)s AND day >= left(%(since)s, 10)
       AND agent_version = ANY (%(versions)s)
     GROUP BY agent_version, day
), counted AS (
    SELECT version, day, sum(runs) OVER (PARTITION BY version ORDER BY day DESC) AS number FROM days
), start AS (  -- the newest days in which each version has enough runs, or all of them
    SELECT greatest(min(day), %(since)s) AS at
      FROM (SELECT coalesce(max(day) FILTER (WHERE number >= %(most)s), min(day)) AS day
              FROM counted GROUP BY version) AS enough
), answered AS (
    SELECT version, sum(runs)::bigint AS number,
           (SELECT requested_at FROM runs
             WHERE account_id = %(account)s AND agent_id = %(agent)s AND agent_version = version
               AND requested_at >= start.at AND ended_at IS NOT NULL AND conversation_id IS NOT NULL
             ORDER BY requested_at LIMIT 1) AS first,
           (SELECT requested_at FROM runs
             WHERE account_id = %(account)s AND agent_id = %(agent)s AND agent_version = version
               AND requested_at >= start.at AND ended_at IS NOT NULL AND conversation_id IS NOT NULL
             ORDER BY requested_at DESC LIMIT 1) AS last
      FROM days, start WHERE day >= left(start.at, 10) GROUP BY version, start.at
), conversation AS (
    SELECT agent_version AS version,
           avg((state = 'completed')::integer)::float8 AS completed,
           avg((SELECT avg(score) FROM feedback WHERE feedback.trace_id = runs.trace_id)) AS rating,
           avg((EXISTS (SELECT FROM tools
                         WHERE tools.trace_id = runs.trace_id AND is_error))::integer)::float8 AS tool_errors,
           avg(CASE WHEN NOT EXISTS (SELECT FROM approvals WHERE approvals.trace_id = runs.trace_id)
                    THEN extract(epoch FROM ended_at::timestamptz - started_at::timestamptz) END)::float8
               AS seconds,
           avg(input_tokens + output_tokens + cache_read_tokens + cache_creation_tokens)::float8 AS tokens,
           CASE WHEN count(cost) = count(*) THEN avg(cost)::float8 END AS cost
      FROM answered JOIN runs ON agent_version = version
     WHERE account_id = %(account)s AND agent_id = %(agent)s AND ended_at IS NOT NULL
       AND model = (SELECT config ->> 'model' FROM agent_versions  -- no fall-back answered
                     WHERE agent_versions.agent_id = %(agent)s AND agent_versions.version = agent_version)
       AND (SELECT count(first) FROM answered) = 2
       AND requested_at BETWEEN (SELECT max(first) FROM answered) AND (SELECT min(last) FROM answered)
       AND (hashtext(conversation_id) & 2147483647) %% (1 + number / %(most)s) = 0
     GROUP BY agent_version, conversation_id
)
SELECT version, count(*), figure, count(value), avg(value), var_samp(value)
  FROM conversation, LATERAL (VALUES
       ('completed', completed), ('rating', rating), ('tool_errors', tool_errors),
       ('seconds', seconds), ('tokens', tokens), ('cost', cost)) AS figures (figure, value)
 GROUP BY version, figure
"""
