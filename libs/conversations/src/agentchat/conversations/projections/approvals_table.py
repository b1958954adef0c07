"""The read model `approvals`: one row for each call that needs an approval.

Lists and the sweeper read it. A call that waits for the client to run it has a row too, which no list shows:
its `approvers` is CLIENT. A tool's question has a row of its own: its `call_id` is that of the call, a `#`,
and the approval's id.
"""

from collections.abc import Sequence

from agentchat.contracts import events, wire
from agentchat.conversations.projections.projection import LoggedFact, Projection, Statement, insert, put

CLIENT = "client"

_TABLES = """
CREATE TABLE approvals (
    trace_id text NOT NULL,
    call_id text NOT NULL,
    conversation_id text NOT NULL,
    account_id text NOT NULL,
    name text,
    input text,
    approval_id text,
    agent_id text,
    server text,
    approvers text,
    requested_at text COLLATE "C",
    expires_at text COLLATE "C",
    decided text,
    status text,
    PRIMARY KEY (trace_id, call_id)
);
CREATE INDEX approvals_account_idx ON approvals (account_id, approval_id);
CREATE INDEX approvals_conversation_idx ON approvals (conversation_id);
CREATE INDEX approvals_pending_idx ON approvals (trace_id, expires_at) WHERE status = 'pending';
CREATE INDEX approvals_id_idx ON approvals (approval_id);
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON approvals TO agentchat_service;
"""


def _build_statements(facts: Sequence[LoggedFact]) -> list[Statement]:
    rows: dict[tuple[str, str], dict[str, object]] = {}
    decided: list[dict[str, object]] = []
    for fact in facts:
        match fact.event:
            case events.ToolCalled(needs_approval=True) as call:
                _get_row(rows, fact, call.call_id).update(
                    name=call.name, input=wire.encode(call.input).decode()
                )
            case events.ApprovalRequested() as question:
                _get_row(rows, fact, question.call_id).update(_build_question(question))
            case events.ElicitationRequested(asked=call) as question:
                row = _get_row(rows, fact, f"{question.call_id}#{question.approval_id}")
                row.update(_build_question(question), name=call.name, input=wire.encode(call.input).decode())
            case events.ClientToolRequested() as question:
                row = _get_row(rows, fact, question.call_id)
                row.update(_build_question(question), name=question.tool, approvers=CLIENT)
            case events.ApprovalDecided() as decision:
                known = wire.encode(decision).decode()
                decided.append(
                    {"approval_id": decision.approval_id, "decided": known, "status": decision.decision}
                )
            case _:
                pass
    return [*put(_UPSERT, list(rows.values())), *put(_DECIDE, decided)]


def _build_question(question: events.DecisionRequested) -> dict[str, object]:
    return {
        "approval_id": question.approval_id,
        "agent_id": question.agent_id,
        "server": question.server,
        "approvers": question.approvers,
        "requested_at": question.at,
        "expires_at": question.expires_at,
        "status": "pending",
    }


def _get_row(
    rows: dict[tuple[str, str], dict[str, object]], fact: LoggedFact, call_id: str
) -> dict[str, object]:
    own: dict[str, object] = {
        "trace_id": fact.event.trace_id,
        "call_id": call_id,
        "conversation_id": fact.conversation_id,
        "account_id": fact.account_id,
    }
    return rows.setdefault((fact.event.trace_id, call_id), own)


PROJECTION = Projection(
    name="approvals",
    tables=_TABLES,
    takes=frozenset(
        {
            events.ToolCalled,
            events.ApprovalRequested,
            events.ElicitationRequested,
            events.ClientToolRequested,
            events.ApprovalDecided,
            events.ConversationErased,
        }
    ),
    changes=_build_statements,
)

_UPSERT = insert(
    "approvals",
    "trace_id text, call_id text, conversation_id text, account_id text, name text, input text, "
    "approval_id text, agent_id text, server text, approvers text, requested_at text, expires_at text, "
    "status text",
    """(trace_id, call_id) DO UPDATE
   SET approval_id = excluded.approval_id, agent_id = excluded.agent_id, server = excluded.server,
       approvers = excluded.approvers, requested_at = excluded.requested_at,
       expires_at = excluded.expires_at, status = excluded.status""",
)

_DECIDE = """
UPDATE approvals AS kept SET decided = new.decided, status = new.status
  FROM json_to_recordset(%s) AS new(approval_id text, decided text, status text)
 WHERE kept.approval_id = new.approval_id
"""
