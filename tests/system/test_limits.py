"""Limits on the whole system: two gateways and real runs."""

import asyncio

from agentchat.administration import Admin, admin_usage
from tests.administrator import plan_with, put_plan
from tests.harness import RunningStack
from tests.system.calling import MakeAccount

RUNS = 3
PLAN = plan_with("Three", concurrent_runs=RUNS, tokens_per_month=1_000_000)


async def wait_for_tokens(admin: Admin, account_id: str, tokens: int) -> None:
    """Until the read model has so many tokens."""
    async with asyncio.timeout(40):
        while (  # noqa: ASYNC110 - a run that failed has no tokens, and is there a moment later
            (month := await admin_usage.get_month(admin, account_id)).tokens < tokens or not month.failed
        ):
            await asyncio.sleep(0.05)


async def test_exactly_n_run_and_the_month_is_counted(
    stack: RunningStack, admin: Admin, make_account: MakeAccount
) -> None:
    await put_plan(admin.pool, PLAN)
    account_id, (slow, failing) = await make_account(
        PLAN.name, "demo-load?deltas=40&delay_ms=100", "demo-echo?fail=401"
    )
    at_both = [slow.at(url) for url in stack.environment.gateway_urls]
    tokens = 0
    for _ in range(2):  # the slots of the first round are free when its answers are here
        answers = await asyncio.gather(*(at_both[place % 2].chat("Go.") for place in range(16)))
        assert sorted(answer.status_code for answer in answers) == [200] * RUNS + [429] * (16 - RUNS)
        tokens += sum(each.json()["message"]["token_count"] for each in answers if each.status_code == 200)
    assert (await failing.chat("Go.")).status_code == 502
    await wait_for_tokens(admin, account_id, tokens)
    month = await admin_usage.get_month(admin, account_id)
    assert month.tokens == tokens
    assert month.limit == PLAN.tokens_per_month
    assert month.failed == 1
    assert account_id in [each.account_id for each in await admin_usage.list_accounts(admin)]
