"""The read model `runs`: one row a run, with what it was answered by, when, and at what cost."""

from collections.abc import Sequence
from typing import get_args

import msgspec

from contracts import events
from contracts.values import Usage
from conversations.projections.projection import LoggedFact, Projection, Statement, insert, put

_TABLES = """
CREATE TABLE runs (
    trace_id text PRIMARY KEY,
    conversation_id text NOT NULL,
    account_id text NOT NULL,
    agent_id text,
    agent_version integer,
    model text,
    form text,
    state text NOT NULL,
    code text,
    attempts integer NOT NULL,
    rounds integer NOT NULL,
    tool_calls integer NOT NULL,
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cache_read_tokens bigint NOT NULL,
    cache_creation_tokens bigint NOT NULL,
    requested_at text COLLATE "C",
    started_at text COLLATE "C",
    ended_at text COLLATE "C"
);
CREATE INDEX runs_account_idx ON runs (account_id, requested_at);
CREATE INDEX runs_conversation_idx ON runs (conversation_id);
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON runs TO agentchat_service;
"""


class _Change(msgspec.Struct):
    """What a batch has of one run; None is what it does not have. `tool_calls` are those that it adds."""

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
    requested_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None


_OF_A_RUN = (
    events.MessageSaved
    | events.RunStarted
    | events.ModelReplied
    | events.ToolCalled
    | events.RunCompleted
    | events.RunFailed
    | events.RunCancelled
)


def _changes(facts: Sequence[LoggedFact]) -> list[Statement]:
    changes: dict[str, _Change] = {}
    for fact in facts:
        run = changes.setdefault(fact.event.trace_id, _Change(fact.conversation_id, fact.account_id))
        _add(run, fact.event)
    return put(_UPSERT, [_row(trace_id, each) for trace_id, each in changes.items()])


def _add(run: _Change, event: events.Event) -> None:
    match event:
        case events.MessageSaved(role="user"):
            run.agent_id, run.requested_at = event.agent_id, event.at
        case events.RunStarted():
            run.agent_version, run.model, run.form = event.agent_version, event.model, event.form
            run.attempts = event.attempt
            run.started_at = run.started_at or event.at
        case events.ModelReplied():
            run.rounds = max(run.rounds, event.round)
        case events.ToolCalled():
            run.tool_calls += 1
        case events.RunCompleted():
            _end(run, event, "completed", None)
        case events.RunFailed():
            _end(run, event, "failed", event.code)
        case events.RunCancelled():
            _end(run, event, "cancelled", "cancelled")
        case _:
            pass


def _end(
    run: _Change,
    event: events.RunEnd,
    state: str,
    code: str | None,
) -> None:
    run.state, run.code, run.usage, run.ended_at = state, code, event.usage, event.at


def _row(trace_id: str, run: _Change) -> dict[str, object]:
    return {"trace_id": trace_id, **msgspec.structs.asdict(run), **msgspec.structs.asdict(run.usage)}


PROJECTION = Projection(
    name="runs",
    tables=_TABLES,
    takes=frozenset({*get_args(_OF_A_RUN), events.ConversationErased}),
    changes=_changes,
)

_UPSERT = insert(
    "runs",
    "trace_id text, conversation_id text, account_id text, agent_id text, agent_version integer, "
    "model text, form text, state text, code text, attempts integer, rounds integer, tool_calls integer, "
    "input_tokens bigint, output_tokens bigint, cache_read_tokens bigint, cache_creation_tokens bigint, "
    "requested_at text, started_at text, ended_at text",
    """(trace_id) DO UPDATE
   SET agent_id = coalesce(excluded.agent_id, kept.agent_id),
       agent_version = coalesce(excluded.agent_version, kept.agent_version),
       model = coalesce(excluded.model, kept.model),
       form = coalesce(excluded.form, kept.form),
       state = CASE WHEN kept.ended_at IS NULL THEN excluded.state ELSE kept.state END,
       code = coalesce(kept.code, excluded.code),
       attempts = greatest(kept.attempts, excluded.attempts),
       rounds = greatest(kept.rounds, excluded.rounds),
       tool_calls = kept.tool_calls + excluded.tool_calls,
       input_tokens = greatest(kept.input_tokens, excluded.input_tokens),
       output_tokens = greatest(kept.output_tokens, excluded.output_tokens),
       cache_read_tokens = greatest(kept.cache_read_tokens, excluded.cache_read_tokens),
       cache_creation_tokens = greatest(kept.cache_creation_tokens, excluded.cache_creation_tokens),
       requested_at = coalesce(kept.requested_at, excluded.requested_at),
       started_at = coalesce(kept.started_at, excluded.started_at),
       ended_at = coalesce(kept.ended_at, excluded.ended_at)""",
)
