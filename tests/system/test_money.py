"""A chat's cost is the same in the ledger, the APIs and the console, and a budget warns and refuses."""

import asyncio
import csv

import psycopg
import pytest
from standardwebhooks import Webhook

from agentchat.administration import Admin, admin_accounts, admin_usage
from agentchat.administration.admin_values import AccountChanges
from agentchat.console.shared.template_filters import format_money
from agentchat.runtime.postgres import acquire_connection
from tests.console.pages import Browser
from tests.gateway.admin import AdminClient
from tests.harness import RunningStack
from tests.system.calling import Caller, MakeAccount
from tests.webhooks.receiver import Receiver

SECONDS = 60.0


async def read_cost(caller: Caller, runs: int) -> float:
    """The account's cost, once so many runs are counted."""
    async with asyncio.timeout(SECONDS):
        while True:
            usage = (await caller.get("/v1/usage")).json()
            if usage["runs"] == runs:
                assert usage["unpriced"] == 0
                assert usage["currency"] == "USD"
                assert sum(line["cost"] for line in usage["lines"]) == pytest.approx(usage["cost"])
                return float(usage["cost"])
            await asyncio.sleep(0.1)


async def test_a_cost_is_the_same_everywhere(
    stack: RunningStack, admin: Admin, make_account: MakeAccount
) -> None:
    """A million tokens of its model cost 1 for input and 2 for output."""
    account_id, (caller,) = await make_account("Unlimited", "demo-echo")
    ada = caller.at(caller.base_url)
    ada.headers["X-User-Id"] = "ada"
    assert (await ada.chat("Hello.")).is_success
    cost = await read_cost(caller, 1)
    ledger = "SELECT cost::float8, first_token_ms FROM runs WHERE account_id = %s"
    async with acquire_connection(admin.pool) as conn:
        [(found, first_token_ms)] = await (await conn.execute(ledger, [account_id])).fetchall()
    assert first_token_ms >= 0
    user = (await caller.get("/v1/users/ada")).json()
    month = await admin_usage.get_month(admin, account_id)
    [listed] = [each for each in await admin_usage.list_accounts(admin) if each.account_id == account_id]
    [line] = month.lines
    assert cost == pytest.approx((line.input_tokens + 2 * line.output_tokens) / 1_000_000) != 0
    costs = [found, user["cost"], user["months"][0]["cost"], month.cost, line.cost, listed.cost]
    assert costs == pytest.approx([cost] * len(costs))
    async with Browser(str(stack.environment.console_url)) as browser:
        for path in ("/accounts", f"/accounts/{account_id}", f"/accounts/{account_id}/user?user_id=ada"):
            assert str(format_money(cost, "USD")) in await browser.open_page(path), path
        names, *rows = csv.reader((await browser.get("/accounts.csv")).text.splitlines())
        [row] = [row for row in rows if row[names.index("account_id")] == account_id]
        assert float(row[names.index("cost")]) == pytest.approx(cost)
        by_user = (await browser.get(f"/accounts/{account_id}/users.csv?month={month.month}")).text
        assert list(csv.DictReader(by_user.splitlines())) == [
            {name: str(value) for name, value in ({"user_id": "ada"} | user["months"][0]).items()}
        ]


async def test_sums_of_a_conversation_are_the_same_everywhere(
    stack: RunningStack, admin: Admin, admin_api: AdminClient, make_account: MakeAccount
) -> None:
    """Three replies: a bad one, one whose rating is withdrawn, and one of a model that has no price."""
    account_id, (priced, unpriced) = await make_account("Unlimited", "demo-echo", "demo-shop-1")
    bad = (await priced.chat("Hello.")).json()
    conversation_id = bad["conversation_id"]
    withdrawn = (await priced.chat("Hello.", conversation_id=conversation_id)).json()
    assert (await unpriced.chat("Hello.", conversation_id=conversation_id)).is_success
    for reply, score in ((bad, -1), (withdrawn, 1), (bad, -0.5)):
        path = f"/v1/messages/{reply['message']['id']}/feedback"
        name = {"on_behalf_of": "ada"} if score == -0.5 else {}
        assert (await priced.send("POST", path, json={"score": score, **name})).is_success
    path = f"/v1/messages/{withdrawn['message']['id']}/feedback"
    assert (await priced.send("DELETE", path)).is_success
    async with asyncio.timeout(SECONDS):
        while True:
            [listed] = (await admin_api.get("/conversations", account_id=account_id))["data"]
            usage = (await priced.get("/v1/usage")).json()
            if (usage["runs"], listed["rating"]) == (3, -0.75):
                break
            await asyncio.sleep(0.1)
    sums = """
    SELECT sum(tokens)::bigint, CASE WHEN count(*) = count(cost) THEN sum(cost)::float8 END,
           count(*) - count(cost), sum(cost)::float8,
           (SELECT avg(score) FROM analytics.feedback WHERE conversation_id = %(id)s)
      FROM analytics.runs WHERE conversation_id = %(id)s"""
    async with await psycopg.AsyncConnection.connect(stack.environment.analyst_database_url) as conn:
        [found] = await (await conn.execute(sums, {"id": conversation_id})).fetchall()
    tokens, cost, without_price, cost_of_others, rating = found
    assert (cost, without_price, rating) == (None, 1, -0.75)
    assert (listed["tokens"], listed["cost"], listed["rating"]) == (tokens, cost, rating)
    assert (usage["tokens"], usage["unpriced"]) == (tokens, without_price)
    assert usage["cost"] == pytest.approx(cost_of_others) != 0
    for asked, ids in (("bad", [conversation_id]), ("good", [])):
        page = (await priced.get("/v1/conversations", rating=asked)).json()["data"]
        assert [each["conversation_id"] for each in page] == ids
    async with Browser(str(stack.environment.console_url)) as browser:
        tables = {
            asked: (await browser.get(f"/conversations.csv?account={account_id}&rating={asked}")).text
            for asked in ("bad", "good")
        }
    [row] = csv.DictReader(tables["bad"].splitlines())
    assert (int(row["tokens"]), row["cost"], float(row["rating"])) == (tokens, "", rating)
    assert not list(csv.DictReader(tables["good"].splitlines()))


async def test_a_budget_warns_and_refuses(
    admin: Admin, make_account: MakeAccount, receiver: Receiver
) -> None:
    account_id, (caller,) = await make_account("Unlimited", "demo-echo")
    wanted = {"url": receiver.build_url("/money"), "events": ["budget.warning", "budget.exceeded"]}
    endpoint = (await caller.send("POST", "/v1/webhook_endpoints", json=wanted)).json()
    assert (await caller.chat("Hello.")).is_success
    budget = 1.2 * await read_cost(caller, 1)
    await admin_accounts.change(admin, account_id, AccountChanges(monthly_budget=budget))
    [warned] = await receiver.wait_until("/money", 1)
    assert (await caller.chat("Hello again.")).is_success, "a warning refuses nothing"
    _, exceeded = await receiver.wait_until("/money", 2)
    bodies = [Webhook(endpoint["secret"]).verify(got.body, got.headers) for got in (warned, exceeded)]
    assert [each["type"] for each in bodies] == ["budget.warning", "budget.exceeded"]
    assert all(each["data"]["budget"] == budget for each in bodies)
    async with asyncio.timeout(SECONDS):
        while (refused := await caller.chat("Once more.")).is_success:  # noqa: ASYNC110 - figures are cached
            await asyncio.sleep(0.1)
    assert (refused.status_code, refused.json()["code"]) == (429, "budget_exceeded")
    assert 1 <= int(refused.headers["Retry-After"]) <= 31 * 86_400
    assert len(receiver.list_at("/money")) == 2
