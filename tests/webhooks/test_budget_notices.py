"""Webhook events about monthly budgets: once for each month, threshold, and account or user."""

from typing import Any

import msgspec
import pytest

from agentchat.administration import admin_accounts
from agentchat.administration.admin_values import AccountChanges
from agentchat.contracts.webhooks import BudgetWebhook
from agentchat.runtime.postgres import acquire_connection
from agentchat.webhooks.budget_notices import BudgetNotices
from agentchat.webhooks.delivery_queue import erase_budgets_of_user
from tests.administrator import administrator
from tests.webhooks.conftest import World

_TODAY = "to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD')"
_RUN = """
WITH clock AS (SELECT clock_timestamp() AT TIME ZONE 'UTC' AS now)
INSERT INTO runs (trace_id, account_id, user_id, state, attempts, rounds, tool_calls, input_tokens,
                  output_tokens, cache_read_tokens, cache_creation_tokens, cost, ended_at)
SELECT gen_random_uuid(), %s, %s, 'completed', 1, 1, 0, 1, 0, 0, 0, %s,
        to_char(greatest(date_trunc('month', now), now - interval '20 minutes'),
                'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') FROM clock
"""
_DAY = f"""
INSERT INTO usage_by_day SELECT %s, {_TODAY}, gen_random_uuid(), 1, 'm', 1, 0, 0, 1, 0, 1, 0, 0, 0, %s, 0
"""
BOTH = ["budget.warning", "budget.exceeded"]
Expected = list[tuple[str, str | None, float]]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"monthly_budget": 251.0}, []),
        ({"monthly_budget": 250.0}, [("budget.warning", None, 200)]),
        ({"monthly_budget": 200.0}, [(each, None, 200) for each in BOTH]),
        (
            {"user_monthly_budget": 50.0},
            [*((each, "ada", 60) for each in BOTH), ("budget.warning", "bob", 40)],
        ),
    ],
)
async def test_each_threshold_is_announced_once(
    world: World, changes: dict[str, Any], expected: Expected
) -> None:
    await admin_accounts.change(administrator(world.pool), world.account_id, AccountChanges(**changes))
    endpoint = await world.create_endpoint("/money", "budget.warning", "budget.exceeded")
    await world.create_endpoint("/others", "run.completed")
    await world.execute(_DAY, world.account_id, 200)
    for user, cost in (("ada", 60), ("bob", 40), (None, 100)):
        await world.execute(_RUN, world.account_id, user, cost)
    for looking in (BudgetNotices(world.pool, "EUR"), BudgetNotices(world.pool, "EUR")):
        await looking.step()
        await looking.step()
    bodies = [
        msgspec.json.decode(got.body, type=BudgetWebhook)
        for got in await world.receiver.wait_until("/money", len(expected))
    ]
    assert sorted((each.type, each.data.user_id or "", each.data.cost) for each in bodies) == sorted(
        (type_, user or "", cost) for type_, user, cost in expected
    )
    assert {each.data.currency for each in bodies} <= {"EUR"}
    async with acquire_connection(world.pool) as conn:
        await erase_budgets_of_user(conn, world.account_id, "ada")
    found = await world.list_deliveries(endpoint.id)
    assert len(found) == len(expected)
    rows = "SELECT count(*) FROM webhook_deliveries WHERE body LIKE '%\"ada\"%'"
    async with acquire_connection(world.pool) as conn:
        assert await (await conn.execute(rows)).fetchall() == [(0,)]


async def test_a_new_budget_is_told_of_users_without_a_new_run(world: World) -> None:
    await world.create_endpoint("/money", "budget.exceeded")
    await world.execute(_RUN, world.account_id, "ada", 60)
    notices = BudgetNotices(world.pool, "EUR")
    for budget in (100.0, 50.0):
        changes = AccountChanges(user_monthly_budget=budget)
        await admin_accounts.change(administrator(world.pool), world.account_id, changes)
        await notices.step()
    (got,) = await world.receiver.wait_until("/money", 1)
    told = msgspec.json.decode(got.body, type=BudgetWebhook).data
    assert (told.user_id, told.budget, told.cost) == ("ada", 50, 60)
