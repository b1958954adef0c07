"""Approvals as those who decide see them: one out of the log at once, lists out of the read model."""

from typing import Any

import msgspec
import psycopg
import pytest

from agentchat.contracts import approval_bodies, wire
from agentchat.contracts.values import InputAsked
from agentchat.conversations.aggregate.approval_rules import ApprovalAnswer, DecisionEvents, decide_approval
from agentchat.conversations.queries.current_activity import load_activity
from agentchat.conversations.queries.find_approvals import find_approval, list_approvals
from agentchat.runtime.postgres import Pool
from tests.conversations.given import ACCOUNT, ERASED, begin, build_run_started, build_tool_returned
from tests.conversations.read_models import Storage
from tests.conversations.test_approvals import ADA, SOON, ask, build_elicitation, call_tool

pytestmark = pytest.mark.usefixtures("empty_database")


async def list_shown(pool: Pool, **those: str) -> list[approval_bodies.ApprovalRecord]:
    return await list_approvals(pool, ACCOUNT, limit=10, **those)


async def test_approval_is_listed_as_in_the_log_before_and_after(storage: Storage) -> None:
    waiting = await storage.add(*begin(), *call_tool("cancel_order"), build_tool_returned("c1"), ask())
    await storage.follow()
    found = await find_approval(storage.pool, "approval-c2")
    assert found is not None
    assert (found.account_id, found.approval.status, found.approval.input) == (
        ACCOUNT,
        "pending",
        {"order_id": "ORD-1"},
    )
    assert (
        await list_shown(storage.pool) == await list_shown(storage.pool, status="pending") == [found.approval]
    )
    answer = ApprovalAnswer(approval_id="approval-c2", decision="denied", by=ADA, reason="No.")
    outcome = decide_approval(waiting.runs[0], answer, now=SOON)
    assert isinstance(outcome, DecisionEvents)
    await storage.store.append(waiting, outcome.events)
    found = await find_approval(storage.pool, "approval-c2")
    assert found is not None
    assert (found.approval.status, found.approval.decision and found.approval.decision.by) == ("denied", ADA)
    await storage.follow()
    assert await list_shown(storage.pool, conversation_id=waiting.conversation_id) == [found.approval]
    assert await list_shown(storage.pool, status="pending") == []
    assert await list_approvals(storage.pool, "another", limit=10) == []


async def test_expired_approval_reads_expired_before_it_is_swept(storage: Storage) -> None:
    await storage.add(*begin(), *call_tool("cancel_order"), build_tool_returned("c1"), ask(expires_at=SOON))
    await storage.follow()
    found = await find_approval(storage.pool, "approval-c2")
    assert found is not None
    assert (found.approval.status, found.approval.decision) == ("expired", None)
    assert await list_shown(storage.pool) == await list_shown(storage.pool, status="expired")
    assert await list_shown(storage.pool) == [found.approval]
    assert await list_shown(storage.pool, status="pending") == []
    assert (await load_activity(storage.pool)).approvals == 0


async def test_a_row_whose_approval_cannot_be_read_leaves_the_others(storage: Storage) -> None:
    await storage.add(*begin(), *call_tool("cancel_order"), build_tool_returned("c1"), ask())
    await storage.follow()
    whole = await list_shown(storage.pool)
    async with await psycopg.AsyncConnection.connect(storage.url) as owner:
        await owner.execute(
            "INSERT INTO approvals SELECT 't', 'c', 'x', account_id, name, input, 'zzz', agent_id, server,"
            " approvers, requested_at, expires_at, '{\"type\": \"of_a_newer_release.v1\"}', 'approved'"
            " FROM approvals"
        )
    assert await list_shown(storage.pool) == whole


@pytest.mark.parametrize("stored_as", ["elicitation_requested.v1", "approval_requested.v1"])
async def test_tools_question_is_listed_next_to_its_calls_approval(storage: Storage, stored_as: str) -> None:
    """Both are of one call, which a person has allowed, and whose tool then asks.

    Earlier releases stored what a tool asks as an approval with `build_user_message`.
    """
    waiting = await storage.add(*begin(), *call_tool("cancel_order"), build_tool_returned("c1"), ask())
    allowed = decide_approval(
        waiting.runs[0], ApprovalAnswer(approval_id="approval-c2", decision="approved", by=ADA), now=SOON
    )
    assert isinstance(allowed, DecisionEvents)
    asks = InputAsked(
        message="Why?",
        requested_schema={"type": "object", "properties": {"why": {"type": "string"}}},
        name="cancel_order",
        input={"order_id": "ORD-1"},
        key="a",
        request_state="opaque",
    )
    waiting = await storage.store.append(waiting, [*allowed.events, build_run_started(attempt=2)])
    asking = wire.encode(build_elicitation(asks, approval_id="approval-why"))
    state = wire.encode(msgspec.json.decode(asking, type=dict[str, Any]) | {"type": stored_as})
    await storage.store.append_stored(waiting.conversation_id, waiting.version, [(stored_as, state)])
    waiting = await storage.store.load(waiting.conversation_id)
    (call,) = waiting.runs[0].pending
    assert (call.leg, call.request_state, call.may_run) == (1, "opaque", False)
    await storage.follow()
    found = [await find_approval(storage.pool, name) for name in ("approval-why", "approval-c2")]
    shown = [each.approval for each in found if each is not None]
    assert [each.elicitation for each in shown] == [asks.elicitation, None]
    assert [each.status for each in shown] == ["pending", "approved"]
    assert await list_shown(storage.pool) == shown
    answer = ApprovalAnswer(approval_id="approval-why", decision="approved", by=ADA, input={"why": "Late"})
    outcome = decide_approval(waiting.runs[0], answer, now=SOON)
    assert isinstance(outcome, DecisionEvents)
    waiting = await storage.store.append(waiting, outcome.events)
    await storage.follow()
    (first, _) = await list_shown(storage.pool)
    assert first.decision is not None
    assert first.decision.input == {"why": "Late"}
    await storage.store.append(waiting, [ERASED])
    await storage.follow()
    assert await list_shown(storage.pool) == []
