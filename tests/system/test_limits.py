"""Limits on the whole system: two gateways, real runs, and a month that Redis forgets."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest
from redis.asyncio import Redis

from administration import Admin, usage
from directory.administration import create_account, create_agent, create_key, put_plan
from directory.agent_draft import AgentDraft
from directory.plans import Plan
from directory.secrets import Sealer
from limits import Limiter
from ops import secrets
from ops.harness import RunningStack
from runtime.postgres import connection, open_pool
from tests.system.calling import Caller

RUNS = 3
PLAN = Plan(
    name="Three",
    requests_per_minute=None,
    concurrent_runs=RUNS,
    tokens_per_month=1_000_000,
    form2_streaming=True,
    max_message_bytes=None,
)


class Account(msgspec.Struct, frozen=True):
    """Callers at both gateways, of a slow agent and of one whose provider fails."""

    account_id: str
    slow: tuple[Caller, Caller]
    failing: Caller


@pytest.fixture
async def admin(stack: RunningStack) -> AsyncIterator[Admin]:
    found = stack.environment
    sealer = Sealer.from_setting(secrets.keep(stack.folder.secrets).secret_key)
    limiter = Limiter(found.redis_url, instance="tests")
    async with open_pool(found.database_url) as pool:
        yield Admin(pool=pool, sealer=sealer, actor="tests", limiter=limiter)
    await limiter.aclose()


@pytest.fixture
async def account(stack: RunningStack, http: httpx.AsyncClient, admin: Admin) -> Account:
    async with connection(admin.pool, seconds=10) as conn:
        await put_plan(conn, PLAN, actor="tests")
        made = await create_account(conn, name="Three", plan=PLAN.name, actor="tests")
        key = (await create_key(conn, made.account_id, actor="tests")).key

        async def agent(model: str) -> str:
            draft = AgentDraft(name=model, model=model, provider_key="offline")
            return await create_agent(conn, admin.sealer, made.account_id, draft, actor="tests")

        slow, failing = await agent("demo-load?deltas=20&delay_ms=20"), await agent("demo-echo?fail=401")
    one, two = (Caller(http, url, key, slow) for url in stack.environment.gateway_urls)
    return Account(made.account_id, (one, two), Caller(http, one.base_url, key, failing))


async def followed(admin: Admin, account: Account, tokens: int) -> None:
    """Until the read model has so many tokens."""
    async with asyncio.timeout(10):
        while (await usage.of_month(admin, account.account_id)).tokens < tokens:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@pytest.mark.requirement("LIMIT-CONCURRENT", "LIMIT-QUOTA", "LIMIT-MONTH", "USAGE")
async def test_exactly_n_run_and_the_month_survives_a_lost_redis(
    stack: RunningStack, account: Account, admin: Admin
) -> None:
    tokens = 0
    for _ in range(2):  # the slots of the first round are free when its answers are here
        answers = await asyncio.gather(*(account.slow[place % 2].chat("Go.") for place in range(40)))
        assert sorted(answer.status_code for answer in answers) == [200] * RUNS + [429] * (40 - RUNS)
        tokens += sum(each.json()["message"]["token_count"] for each in answers if each.status_code == 200)
    assert (await account.failing.chat("Go.")).status_code == 502
    async with Redis.from_url(stack.environment.redis_url) as redis:
        async for name in redis.scan_iter(f"limits:{{{account.account_id}}}:*"):
            await redis.delete(name)
    asked = await account.slow[1].chat("Go.")
    tokens += asked.json()["message"]["token_count"]
    assert '"month"' not in asked.headers["ratelimit"]
    assert admin.limiter is not None
    async with asyncio.timeout(10):
        while not (await admin.limiter.kept_month(account.account_id)).known:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.05)
    await followed(admin, account, tokens)
    verified = await usage.verify(admin, account.account_id)
    assert (verified.ok, verified.runs, verified.mended) == (True, 2 * RUNS + 2, False)
    assert verified.cached == verified.logged == verified.projected == tokens
    month = await usage.of_month(admin, account.account_id)
    assert (month.tokens, month.limit, month.failed) == (tokens, PLAN.tokens_per_month, 1)
    assert account.account_id in [each.account_id for each in await usage.all_accounts(admin)]


@pytest.mark.requirement("USAGE")
async def test_what_differs_is_named_and_redis_is_mended(
    stack: RunningStack, account: Account, admin: Admin
) -> None:
    answer = await account.slow[0].chat("Go.")
    tokens = answer.json()["message"]["token_count"]
    month = f"limits:{{{account.account_id}}}:month"
    async with Redis.from_url(stack.environment.redis_url) as redis:
        await redis.hincrby(month, "tokens", 5)
    await followed(admin, account, tokens)
    async with connection(admin.pool, seconds=10) as conn:
        await conn.execute(
            "UPDATE usage SET output_tokens = output_tokens + 1 WHERE account_id = %s", [account.account_id]
        )
    told: list[tuple[int, int]] = []
    found = await usage.verify(
        admin, account.account_id, mend=True, on_progress=lambda done, of: told.append((done, of))
    )
    assert (found.logged, found.projected, found.cached, found.mended) == (tokens, tokens + 1, tokens, True)
    assert [(each.trace_id, each.logged, each.projected) for each in found.differences] == [
        (answer.headers["x-trace-id"], tokens, tokens + 1)
    ]
    assert not found.ok
    assert told[-1][0] == told[-1][1]
