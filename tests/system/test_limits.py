"""Limits on the whole system: two gateways and real runs."""

import asyncio

import httpx
import msgspec
import pytest

from agentchat.administration import Admin, admin_accounts, admin_keys, admin_usage
from agentchat.administration.admin_values import NewAccount
from agentchat.administration.admin_versions import create_agent
from agentchat.administration.key_values import NewKey
from agentchat.directory.agent_draft import AgentDraft
from agentchat.runtime.postgres import acquire_connection
from tests.administrator import plan_with, put_plan
from tests.harness import RunningStack
from tests.system.calling import Caller

RUNS = 3
PLAN = plan_with("Three", concurrent_runs=RUNS, tokens_per_month=1_000_000)


class Account(msgspec.Struct, frozen=True):
    """Callers at both gateways, of a slow agent and of one whose provider fails."""

    account_id: str
    slow: tuple[Caller, Caller]
    failing: Caller


@pytest.fixture
async def account(stack: RunningStack, http: httpx.AsyncClient, admin: Admin) -> Account:
    await put_plan(admin.pool, PLAN)
    made = await admin_accounts.create(admin, NewAccount(name="Three", plan=PLAN.name))
    key = (await admin_keys.create(admin, made.id, NewKey())).key
    async with acquire_connection(admin.pool, seconds=10) as conn:

        async def agent(model: str) -> str:
            draft = AgentDraft(name=model, model=model, provider_key="offline")
            return await create_agent(conn, admin.sealer, made.id, draft, actor="tests")

        slow, failing = await agent("demo-load?deltas=40&delay_ms=100"), await agent("demo-echo?fail=401")
    one, two = (Caller(http, url, key, slow) for url in stack.environment.gateway_urls)
    return Account(made.id, (one, two), Caller(http, one.base_url, key, failing))


async def wait_for_tokens(admin: Admin, account: Account, tokens: int) -> None:
    """Until the read model has so many tokens."""
    async with asyncio.timeout(40):
        while (  # noqa: ASYNC110 - a run that failed has no tokens, and is there a moment later
            (month := await admin_usage.get_month(admin, account.account_id)).tokens < tokens
            or not month.failed
        ):
            await asyncio.sleep(0.05)


async def test_exactly_n_run_and_the_month_is_counted(account: Account, admin: Admin) -> None:
    tokens = 0
    for _ in range(2):  # the slots of the first round are free when its answers are here
        answers = await asyncio.gather(*(account.slow[place % 2].chat("Go.") for place in range(16)))
        assert sorted(answer.status_code for answer in answers) == [200] * RUNS + [429] * (16 - RUNS)
        tokens += sum(each.json()["message"]["token_count"] for each in answers if each.status_code == 200)
    assert (await account.failing.chat("Go.")).status_code == 502
    await wait_for_tokens(admin, account, tokens)
    month = await admin_usage.get_month(admin, account.account_id)
    assert month.tokens == tokens
    assert month.limit == PLAN.tokens_per_month
    assert month.failed == 1
    assert account.account_id in [each.account_id for each in await admin_usage.list_accounts(admin)]
