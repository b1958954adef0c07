"""Read approvals for those who decide.

One from the log by its id, and lists from the read model.
"""

from collections.abc import Sequence
from typing import Any, LiteralString

import msgspec

from agentchat.contracts import approval_bodies, events, wire
from agentchat.contracts.approval_bodies import ApprovalStatus
from agentchat.conversations.aggregate import approval_rules
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.rounds import Call, CallApproval
from agentchat.conversations.errors import UnreadableEvent
from agentchat.conversations.event_store import mapper
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.postgres_sessions import read_server_time
from agentchat.conversations.queries.find_by_trace import load_run
from agentchat.runtime.logs import get_logger
from agentchat.runtime.postgres import Pool, acquire_connection

_IS_REQUEST: LiteralString = (
    "topic IN ('approval_requested.v1', 'elicitation_requested.v1', 'client_tool_requested.v1')"
)


MESSAGE_CHARACTERS = 4_000


class FoundApproval(msgspec.Struct, frozen=True):
    """An approval, the owner of its conversation, and its run."""

    account_id: str
    user_id: str | None
    approval: approval_bodies.ApprovalRecord
    run: Run


async def find_approval(pool: Pool, approval_id: str) -> FoundApproval | None:
    """Find an approval by its id, as the log has it now.

    Returns None if it is unknown or its conversation erased. Raises DatabaseUnavailable, UnreadableEvent.
    """
    trace_id = await find_requesting_run(pool, approval_id)
    found = None if trace_id is None else await load_run(pool, trace_id)
    if found is None:
        return None
    conversation_id, run = found
    now = await read_server_time(pool)
    owner = (await Log(pool).find_owners([conversation_id])).get(conversation_id)
    asked = approval_rules.find_approval(run, approval_id)
    return (
        None
        if owner is None or asked is None or asked[1].is_client
        else FoundApproval(
            owner.account_id, owner.user_id, _build_approval(conversation_id, run, *asked, now), run
        )
    )


async def find_requesting_run(pool: Pool, approval_id: str) -> str | None:
    """Find the trace of the run that requested an approval, or that a client runs a tool.

    Raises DatabaseUnavailable.
    """
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(_FIND, [approval_id])).fetchone()
        if row is None:
            row = await (await conn.execute(_FIND_LISTED, [approval_id])).fetchone()
    return None if row is None else str(row[0])


async def count_waiting_runs(pool: Pool, account_ids: Sequence[str] | None = None) -> int:
    """Count the runs of all accounts, or of some, that wait for approvals. Raises DatabaseUnavailable."""
    limited = None if account_ids is None else list(account_ids)
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(_COUNT_WAITING, {"limited": limited})).fetchone()
    return 0 if row is None else int(row[0])


def _build_approval(
    conversation_id: str, run: Run, call: Call, approval: CallApproval, now: str
) -> approval_bodies.ApprovalRecord:
    requested, decided = approval.requested, approval.decided
    # The event that ends an expired approval comes seconds later.
    undecided: ApprovalStatus = "expired" if requested.expires_at <= now else "pending"
    return approval_bodies.ApprovalRecord(
        id=requested.approval_id,
        status=undecided if decided is None else decided.decision,
        trace_id=requested.trace_id,
        conversation_id=conversation_id,
        agent_id=requested.agent_id,
        tool=approval_bodies.CalledTool(name=call.name, server=requested.server),
        input=call.input,
        requested_at=requested.at,
        expires_at=requested.expires_at,
        elicitation=None if approval.asked is None else approval.asked.elicitation,
        decision=None if decided is None else _build_decision(decided),
        message=run.user_text[:MESSAGE_CHARACTERS],
    )


def _build_decision(decided: events.ApprovalDecided) -> approval_bodies.DecisionMade:
    return approval_bodies.DecisionMade(
        **{name: getattr(decided, name) for name in approval_bodies.DecisionMade.__struct_fields__}
    )


async def list_approvals(
    pool: Pool,
    account_id: str | None,
    *,
    user_id: str | None = None,
    status: str | None = None,
    conversation_id: str | None = None,
    account_ids: Sequence[str] | None = None,
    tool: str | None = None,
    after: str | None = None,
    limit: int,
) -> list[approval_bodies.ApprovalRecord]:
    """List approvals of an account, of `account_ids` or of all, the newest first, after the id `after`.

    With `user_id` those in this end user's conversations.

    A row that cannot be read, for example with an event of a newer release, is left out and logged. Raises
    DatabaseUnavailable.
    """
    named = {
        "account": account_id,
        "limited": None if account_ids is None else list(account_ids),
        "user": user_id,
        "status": status,
        "conversation": conversation_id,
        "tool": tool,
        "characters": MESSAGE_CHARACTERS,
        "after": after,
        "limit": limit,
    }
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(_LIST, named)).fetchall()
    found = []
    for row in rows:
        try:
            found.append(_build_listed(*row))
        except (UnreadableEvent, ValueError) as error:  # msgspec.DecodeError too
            get_logger("approvals").warning("approval_unreadable", approval_id=row[6], reason=str(error))
    return found


def _build_listed(
    given: str, topic: str | None, state: bytes, decided: str | None, name: str, server: str, *row: str
) -> approval_bodies.ApprovalRecord:
    requested = None if topic is None else mapper.decode_stored(topic, state)
    event = None if decided is None else wire.decode_event(decided.encode())
    fields: dict[str, Any] = dict(zip(_COLUMNS, row, strict=True))
    return approval_bodies.ApprovalRecord(
        **fields,
        tool=approval_bodies.CalledTool(name=name, server=server),
        input=msgspec.json.decode(given),
        elicitation=requested.asked.elicitation
        if isinstance(requested, events.ElicitationRequested)
        else None,
        decision=_build_decision(event) if isinstance(event, events.ApprovalDecided) else None,
    )


_COLUMNS = (
    "id",
    "conversation_id",
    "trace_id",
    "agent_id",
    "requested_at",
    "expires_at",
    "status",
    "message",
)

_FIND: LiteralString = f"""
SELECT trace_id FROM readable_conversation_events
 WHERE {_IS_REQUEST} AND event_field(state, 'approval_id') = %s
"""  # noqa: S608 - a constant

_FIND_LISTED = "SELECT trace_id FROM approvals WHERE approval_id = %s"

_COUNT_WAITING = (
    "SELECT count(DISTINCT trace_id) FROM approvals WHERE status = 'pending' AND approvers <> 'client'"
    " AND (%(limited)s::text[] IS NULL OR account_id = ANY (%(limited)s))"
)

# A tool's question is only in the log; a page has few of them.
_LIST: LiteralString = f"""
SELECT input, requested.topic, requested.state, decided, name, server, approval_id, conversation_id, trace_id,
       agent_id, requested_at, expires_at, shown, said.message
  FROM approvals
 CROSS JOIN LATERAL (
       SELECT CASE WHEN status = 'pending' AND expires_at::timestamptz <= clock_timestamp() THEN 'expired'
                   ELSE status END AS shown) AS now
  LEFT JOIN LATERAL (
       SELECT topic, state FROM readable_conversation_events
        WHERE {_IS_REQUEST} AND event_field(state, 'approval_id') = approval_id LIMIT 1
       ) AS requested ON call_id LIKE '%%#%%'
  LEFT JOIN LATERAL (
       SELECT left(event_field(state, 'content'), %(characters)s) AS message FROM readable_conversation_events
        WHERE originator_id = approvals.conversation_id AND originator_version = (
              SELECT min(originator_version) - 1 FROM readable_conversation_events AS started
               WHERE started.topic = 'run_started.v1' AND started.trace_id = approvals.trace_id)
       ) AS said ON true
 WHERE approval_id IS NOT NULL AND approvers <> 'client'
   AND (%(account)s::text IS NULL OR account_id = %(account)s)
   AND (%(limited)s::text[] IS NULL OR account_id = ANY (%(limited)s))
   AND (%(user)s::text IS NULL OR EXISTS (
        SELECT FROM conversations AS owned
         WHERE owned.conversation_id = approvals.conversation_id AND owned.user_id = %(user)s))
   AND (%(status)s::text IS NULL OR shown = %(status)s)
   AND (%(conversation)s::text IS NULL OR conversation_id = %(conversation)s)
   AND (%(tool)s::text IS NULL OR name = %(tool)s)
   AND (%(after)s::text IS NULL OR approval_id < %(after)s)
 ORDER BY approval_id DESC LIMIT %(limit)s
"""  # noqa: S608 - a constant
