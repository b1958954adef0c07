"""The scores of live runs, for readers: of named runs, of an agent by day, and where they have fallen."""

import math
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Literal, LiteralString, get_args

import msgspec

from runtime.postgres import Connection

RECENT_HOURS = 6
BEFORE_DAYS = 7
_LEAST_RECENT, _LEAST_BEFORE = 20, 50
_TOLERATED = 0.05
_NOISE = 4.0
"""So many standard errors a mean may be lower by chance: with 3 a hundred agents would raise false alarms."""

MOST_SERIES = 100

Judged = Literal["failed", "passed"]
JUDGED: tuple[Judged, ...] = get_args(Judged)
"""Of a conversation: a run of it has a score that does not pass; it has scores, and all of them pass."""


class RunScore(msgspec.Struct, frozen=True, kw_only=True):
    """What an evaluator said of a run: a `value` from 0 to 1, or in `unjudged` why there is none."""

    evaluator: str
    value: float | None
    passed: bool | None
    reason: str
    unjudged: str | None
    judged_at: datetime


class DayScores(msgspec.Struct, frozen=True, kw_only=True):
    """Of one evaluator and version of an agent on one day in UTC (of judging): `judged` runs have a value,
    of which `passed`; `unjudged` have none.
    """

    day: str
    version: int
    evaluator: str
    judged: int
    passed: int
    unjudged: int
    mean: float | None


class Spread(msgspec.Struct, frozen=True):
    """Values: how many, their mean and their variance."""

    count: int
    mean: float
    variance: float


class ScoreChange(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluator's values of an agent's runs in the last RECENT_HOURS, and in the BEFORE_DAYS before."""

    agent_id: str
    evaluator: str
    recent: Spread
    before: Spread

    @property
    def drop(self) -> float:
        """How far the mean has fallen, 0 where that may be chance or is too little to mind."""
        return drop_of(self.recent, self.before)


def drop_of(recent: Spread, before: Spread) -> float:
    """A mean of few or equal values is taken to be as uncertain as one more of another kind would make it."""
    if recent.count < _LEAST_RECENT or before.count < _LEAST_BEFORE:
        return 0.0
    fallen = before.mean - recent.mean
    variance = sum(each.variance / each.count + 1 / each.count**2 for each in (recent, before))
    return fallen if fallen > max(_TOLERATED, _NOISE * math.sqrt(variance)) else 0.0


async def scores_of(conn: Connection, trace_ids: Collection[str]) -> Mapping[str, tuple[RunScore, ...]]:
    """By run; those that were not judged are left out."""
    found: dict[str, tuple[RunScore, ...]] = {}
    for trace_id, *score in await (await conn.execute(_OF_RUNS, [list(trace_ids)])).fetchall():
        made = RunScore(**dict(zip(RunScore.__struct_fields__, score, strict=True)))
        found[trace_id] = (*found.get(trace_id, ()), made)
    return found


async def scores_of_conversation(
    conn: Connection, conversation_id: str
) -> Mapping[str, tuple[RunScore, ...]]:
    """By run, the first that ended first."""
    rows = await (await conn.execute(_RUNS_OF, [conversation_id])).fetchall()
    scores = await scores_of(conn, [trace_id for (trace_id,) in rows])
    return {trace_id: scores[trace_id] for (trace_id,) in rows if trace_id in scores}


async def changes(conn: Connection) -> list[ScoreChange]:
    """Of the agents that were judged in the last hours, MOST_SERIES at most: those judged most."""
    asked = {"hours": RECENT_HOURS, "days": BEFORE_DAYS, "most": MOST_SERIES}
    return [
        ScoreChange(agent_id=agent_id, evaluator=name, recent=Spread(*row[:3]), before=Spread(*row[3:]))
        for agent_id, name, *row in await (await conn.execute(_CHANGES, asked)).fetchall()
    ]


BY_DAY = """
SELECT to_char(judged_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, agent_version, evaluator, count(value),
       count(*) FILTER (WHERE passed), count(*) - count(value), avg(value)
  FROM run_scores
 WHERE agent_id = %(agent)s AND judged_at >= now() - make_interval(days => %(days)s)
 GROUP BY day, agent_version, evaluator ORDER BY day DESC, agent_version DESC, evaluator
"""
"""SQL for DayScores."""

WITH_SCORES: LiteralString = """EXISTS (
       SELECT FROM judged_runs JOIN run_scores USING (trace_id)
        WHERE judged_runs.conversation_id = {conversation}.conversation_id
       HAVING bool_and(passed) = ({judged} = 'passed'))"""
"""SQL for whether a conversation is Judged so. What has no verdict says nothing."""

_OF_RUNS = """
SELECT trace_id, evaluator, value, passed, reason, unjudged, judged_at FROM run_scores
 WHERE trace_id = ANY(%s) ORDER BY evaluator <> 'completed', evaluator
"""

_RUNS_OF = "SELECT trace_id FROM judged_runs WHERE conversation_id = %s ORDER BY ended_at"

_CHANGES = """
WITH scored AS (
    SELECT agent_id, evaluator, value, judged_at > now() - make_interval(hours => %(hours)s) AS recent
      FROM run_scores
     WHERE judged_at > now() - make_interval(hours => %(hours)s, days => %(days)s) AND value IS NOT NULL
)
SELECT agent_id, evaluator, count(*) FILTER (WHERE recent) AS number, avg(value) FILTER (WHERE recent),
       coalesce(var_samp(value) FILTER (WHERE recent), 0), count(*) FILTER (WHERE NOT recent),
       coalesce(avg(value) FILTER (WHERE NOT recent), 0),
       coalesce(var_samp(value) FILTER (WHERE NOT recent), 0)
  FROM scored GROUP BY agent_id, evaluator HAVING count(*) FILTER (WHERE recent) > 0
 ORDER BY number DESC, agent_id, evaluator LIMIT %(most)s
"""
