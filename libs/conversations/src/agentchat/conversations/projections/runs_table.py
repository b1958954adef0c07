"""The read model `runs`, the ledger of runs.

When each ran, for which agent and model, with how many tokens and at what cost: the sums of its model calls,
so far while it is open. The cost is at the prices of their time, null if tokens have no price.
`first_token_ms` is null if there was no text. `rating` is the mean of the `scores` that its reply has by the
names they were given for. A row outlives the erasure of its conversation, without the conversation's id and
the scores: deleting a conversation gives no tokens back. Only a run without an end is deleted then.
"""

from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import LiteralString, get_args

import msgspec

from agentchat.contracts import events
from agentchat.contracts.values import TOKEN_KINDS, Usage
from agentchat.conversations.aggregate.model_calls import RecordedCall, find_model_call
from agentchat.conversations.projections.projection import (
    LoggedFact,
    Projection,
    Statement,
    Sums,
    insert,
    put,
    remove,
)
from agentchat.runtime.postgres import Connection
from agentchat.runtime.prices import Prices

_DECIMALS = 10
"""A token at 0.01 for a million costs 0.00000001."""

_TABLES = """
CREATE TABLE runs (
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cache_read_tokens bigint NOT NULL,
    cache_creation_tokens bigint NOT NULL,
    attempts integer NOT NULL,
    rounds integer NOT NULL,
    tool_calls integer NOT NULL,
    agent_version integer,
    cost numeric,
    model text,
    state text NOT NULL,
    trace_id text PRIMARY KEY,
    conversation_id text,
    account_id text NOT NULL,
    user_id text,
    agent_id text,
    form text,
    code text,
    first_token_ms bigint,
    duration_ms bigint,
    requested_at text COLLATE "C",
    started_at text COLLATE "C",
    ended_at text COLLATE "C",
    scores jsonb,
    rating double precision
);
CREATE INDEX runs_agent_idx ON runs (account_id, agent_id, requested_at);
CREATE INDEX runs_user_idx ON runs (account_id, user_id, ended_at) WHERE user_id IS NOT NULL;
CREATE INDEX runs_conversation_idx ON runs (conversation_id);
CREATE INDEX runs_ended_idx ON runs (account_id, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_state_idx ON runs (state, ended_at) INCLUDE (trace_id, conversation_id, requested_at)
    WHERE state IN ('failed', 'cancelled');
CREATE INDEX runs_code_idx ON runs (code) INCLUDE (trace_id, requested_at, ended_at) WHERE code IS NOT NULL;
CREATE INDEX runs_duration_idx ON runs (duration_ms) WHERE duration_ms IS NOT NULL;
CREATE INDEX runs_rating_idx ON runs (rating) INCLUDE (trace_id, requested_at, ended_at)
    WHERE rating IS NOT NULL;
CREATE INDEX runs_activity_idx ON runs ((coalesce(ended_at, requested_at)));
CREATE INDEX runs_open_idx ON runs (requested_at) WHERE ended_at IS NULL;
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON runs TO agentchat_service;
CREATE TABLE usage_by_day (
    account_id text,
    day text COLLATE "C",
    agent_id text,
    agent_version integer,
    model text,
    runs bigint NOT NULL,
    failed bigint NOT NULL,
    cancelled bigint NOT NULL,
    rounds bigint NOT NULL,
    milliseconds bigint NOT NULL,
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cache_read_tokens bigint NOT NULL,
    cache_creation_tokens bigint NOT NULL,
    cost numeric NOT NULL DEFAULT 0,
    unpriced bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (account_id, day, agent_id, agent_version, model)
);
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON usage_by_day TO agentchat_service;
"""

_OPEN_OF_AGENT = """
SELECT count(*) OVER (), trace_id FROM runs
 WHERE account_id = %s AND agent_id = %s AND ended_at IS NULL ORDER BY requested_at, trace_id LIMIT %s
"""


async def list_open_runs_of_agent(
    conn: Connection, account_id: str, agent_id: str, *, limit: int
) -> tuple[int, tuple[str, ...]]:
    """Count an agent's runs without an end, and return the trace ids of those that began first."""
    rows = await (await conn.execute(_OPEN_OF_AGENT, [account_id, agent_id, limit])).fetchall()
    return (rows[0][0] if rows else 0), tuple(row[1] for row in rows)


class _Change(msgspec.Struct):
    """The changes of one run by a batch; None is unknown.

    `tool_calls` and `cost` are what it adds, as is `usage` until the run ends; no `cost` if tokens have no
    price.
    """

    conversation_id: str
    account_id: str
    agent_id: str | None = None
    agent_version: int | None = None
    model: str | None = None
    form: str | None = None
    state: str = "running"
    code: str | None = None
    attempts: int = 0
    rounds: int = 0
    tool_calls: int = 0
    usage: Usage = Usage()
    cost: Decimal | None = Decimal()
    first_token_ms: int | None = None
    requested_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None


_OF_A_RUN = (
    events.MessageSaved
    | events.RunStarted
    | events.ContextCompacted
    | events.ModelReplied
    | events.WarningRaised
    | events.ReplyLost
    | events.ToolCalled
    | events.RunCompleted
    | events.RunFailed
    | events.RunCancelled
)


def _build_statements(facts: Sequence[LoggedFact], prices: Prices) -> list[Statement]:
    changes: dict[str, _Change] = {}
    ratings: dict[str, dict[str, float | None]] = {}
    erased: set[str] = set()
    for fact in facts:
        if isinstance(fact.event, events.ConversationErased):
            erased.add(fact.conversation_id)
        elif isinstance(fact.event, events.FeedbackGiven | events.FeedbackWithdrawn):
            score = fact.event.score if isinstance(fact.event, events.FeedbackGiven) else None
            ratings.setdefault(fact.event.trace_id, {})[fact.event.on_behalf_of or ""] = score
        else:
            run = changes.setdefault(fact.event.trace_id, _Change(fact.conversation_id, fact.account_id))
            _add_event(run, fact.event)
            _add_model_call(run, fact.event, prices)
    rows = [_build_row(trace_id, each) for trace_id, each in changes.items()]
    rated = [{"trace_id": trace_id, "scores": scores} for trace_id, scores in ratings.items()]
    return [
        *put(_UPSERT_AND_ADD, rows),
        *put(RATE, rated),
        *remove(_DELETE_OPEN, erased),
        *remove(_LEAVE, erased),
    ]


def _add_event(run: _Change, event: events.Event) -> None:
    match event:
        case events.MessageSaved(role="user", steers=msgspec.UNSET):
            run.agent_id, run.requested_at = event.agent_id, event.at
        case events.RunStarted():
            run.agent_version, run.model, run.form = event.agent_version, event.model, event.form
            run.attempts = event.attempt
            run.started_at = run.started_at or event.at
        case events.ModelReplied():
            run.rounds, run.model = max(run.rounds, event.round), event.model or run.model
        case events.ToolCalled():
            run.tool_calls += 1
        case events.RunCompleted():
            run.rounds = max(run.rounds, event.rounds)
            _end_run(run, event, "completed", None)
        case events.RunFailed():
            _end_run(run, event, "failed", event.code)
        case events.RunCancelled():
            _end_run(run, event, "cancelled", event.code)
        case _:
            pass


def _add_model_call(run: _Change, event: events.Event, prices: Prices) -> None:
    """Add the tokens and the cost of the model call that an event reports."""
    call = find_model_call(event)
    if call is None:
        return
    if run.first_token_ms is None and isinstance(call.first_token_ms, int):
        run.first_token_ms = call.first_token_ms
    if run.ended_at is None:
        run.usage += call.usage
    run.cost = add_cost(run.cost, call, prices)


def add_cost(cost: Decimal | None, call: RecordedCall, prices: Prices) -> Decimal | None:
    """Add the cost of a call to a sum, at the prices of its time.

    Returns None if its tokens, or others of the sum, have no price.
    """
    if not call.usage.total or cost is None:
        return cost
    added = prices.compute_cost(call.model, call.usage, call.at)
    return None if added is None else cost + Decimal(f"{added:.{_DECIMALS}f}")


def _end_run(
    run: _Change,
    event: events.RunEnd,
    state: str,
    code: str | None,
) -> None:
    run.state, run.code, run.usage, run.ended_at = state, code, event.usage, event.at


def _build_row(trace_id: str, run: _Change) -> dict[str, object]:
    tokens = {kind: getattr(run.usage, kind) for kind in TOKEN_KINDS}
    return {"trace_id": trace_id, **msgspec.structs.asdict(run), **tokens}


_SUMS = """
SELECT account_id, substr(ended_at, 1, 10), coalesce(agent_id, ''), coalesce(agent_version, 0),
       coalesce(model, ''), count(*), count(*) FILTER (WHERE state = 'failed'),
       count(*) FILTER (WHERE state = 'cancelled'), sum(rounds)::bigint,
       coalesce(sum(duration_ms), 0)::bigint,
       sum(input_tokens)::bigint, sum(output_tokens)::bigint,
       sum(cache_read_tokens)::bigint, sum(cache_creation_tokens)::bigint,
       coalesce(sum(cost), 0), count(*) FILTER (WHERE cost IS NULL)
"""


def build_projection(prices: Prices) -> Projection:
    """Build the read model with the costs of runs at these prices."""
    return Projection(
        name="runs",
        tables=_TABLES,
        sums=Sums(
            table="usage_by_day",
            query=_SUMS + "FROM {runs} WHERE ended_at IS NOT NULL GROUP BY 1, 2, 3, 4, 5",
        ),
        takes=frozenset(
            {
                *get_args(_OF_A_RUN),
                events.FeedbackGiven,
                events.FeedbackWithdrawn,
                events.ConversationErased,
            }
        ),
        keeps_erased=True,
        changes=partial(_build_statements, prices=prices),
    )


PROJECTION = build_projection(Prices())
"""The read model for its name and tables, without prices."""


_DURATION = "round(extract(epoch FROM {ended}::timestamptz - {started}::timestamptz) * 1000)"

_UPSERT = insert(
    "runs",
    "trace_id text, conversation_id text, account_id text, agent_id text, agent_version integer, "
    "model text, form text, state text, code text, attempts integer, rounds integer, tool_calls integer, "
    "input_tokens bigint, output_tokens bigint, cache_read_tokens bigint, cache_creation_tokens bigint, "
    "cost numeric, first_token_ms bigint, requested_at text, started_at text, ended_at text",
    """(trace_id) DO UPDATE
   SET user_id = coalesce(kept.user_id, excluded.user_id),
       agent_id = coalesce(excluded.agent_id, kept.agent_id),
       agent_version = coalesce(excluded.agent_version, kept.agent_version),
       model = coalesce(excluded.model, kept.model),
       form = coalesce(excluded.form, kept.form),
       state = CASE WHEN kept.ended_at IS NULL THEN excluded.state ELSE kept.state END,
       code = coalesce(kept.code, excluded.code),
       attempts = greatest(kept.attempts, excluded.attempts),
       rounds = greatest(kept.rounds, excluded.rounds),
       tool_calls = kept.tool_calls + excluded.tool_calls,
"""
    + "".join(
        f"""       {kind} = CASE WHEN excluded.ended_at IS NOT NULL THEN excluded.{kind}
                   WHEN kept.ended_at IS NULL THEN kept.{kind} + excluded.{kind} ELSE kept.{kind} END,
"""
        for kind in TOKEN_KINDS
    )
    + """       cost = kept.cost + excluded.cost,
       first_token_ms = coalesce(kept.first_token_ms, excluded.first_token_ms),
       requested_at = coalesce(kept.requested_at, excluded.requested_at),
       started_at = coalesce(kept.started_at, excluded.started_at),
       duration_ms = coalesce(kept.duration_ms, """
    + _DURATION.format(
        ended="coalesce(kept.ended_at, excluded.ended_at)",
        started="coalesce(kept.started_at, excluded.started_at)",
    )
    + """),
       ended_at = coalesce(kept.ended_at, excluded.ended_at)""",
    computed={
        # Set by a run's first event, so that the conversation's first event is parsed once a run.
        "user_id": "CASE WHEN new.requested_at IS NOT NULL THEN ("
        "SELECT event_field(state, 'user_id') FROM conversation_events"
        " WHERE originator_id = new.conversation_id AND originator_version = 1) END",
        "duration_ms": _DURATION.format(ended="new.ended_at", started="new.started_at"),
    },
)

# A run has one end: what comes after it, if anything does, is in its row and not in the sums.
_UPSERT_AND_ADD = f"""
WITH changed AS ({_UPSERT} RETURNING old.ended_at AS ended_before, new.*)
INSERT INTO usage_by_day AS kept {_SUMS}
  FROM changed WHERE ended_before IS NULL AND ended_at IS NOT NULL GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (account_id, day, agent_id, agent_version, model) DO UPDATE
   SET runs = kept.runs + excluded.runs,
       failed = kept.failed + excluded.failed,
       cancelled = kept.cancelled + excluded.cancelled,
       rounds = kept.rounds + excluded.rounds,
       milliseconds = kept.milliseconds + excluded.milliseconds,
       input_tokens = kept.input_tokens + excluded.input_tokens,
       output_tokens = kept.output_tokens + excluded.output_tokens,
       cache_read_tokens = kept.cache_read_tokens + excluded.cache_read_tokens,
       cache_creation_tokens = kept.cache_creation_tokens + excluded.cache_creation_tokens,
       cost = kept.cost + excluded.cost,
       unpriced = kept.unpriced + excluded.unpriced
"""  # noqa: S608 - statements of this module

_DELETE_OPEN = "DELETE FROM runs WHERE conversation_id = ANY(%s) AND ended_at IS NULL"

_LEAVE = """
UPDATE runs SET conversation_id = NULL, scores = NULL, rating = NULL WHERE conversation_id = ANY(%s)
"""

# A score of null is withdrawn. A reply that a fork copied has feedback, but no run.
RATE: LiteralString = """
UPDATE runs AS kept SET scores = rated.scores, rating = rated.rating
  FROM (SELECT trace_id, scores,
               (SELECT avg(score::float8) FROM jsonb_each_text(scores) AS each (name, score)) AS rating
          FROM (SELECT trace_id,
                       nullif(jsonb_strip_nulls(coalesce(runs.scores, '{}') || new.scores), '{}') AS scores
                  FROM json_to_recordset(%s) AS new(trace_id text, scores jsonb)
                  JOIN runs USING (trace_id)) AS given) AS rated
 WHERE kept.trace_id = rated.trace_id
"""
