"""Keys from an address that tries many wrong ones are looked up together, each of them for itself."""

import asyncio

import pytest

from administration import admin_accounts, admin_keys
from administration.admin_values import AccountChanges, NewAccount, NewKey
from gateway.access.wrong_keys import KeyChecks
from runtime.postgres import open_pool
from tests.administrator import administrator

pytestmark = pytest.mark.requirement("AUTH-GUESSES")


async def test_many_keys_cost_few_queries_and_those_that_count_are_told_apart(
    migrated_database_url: str,
) -> None:
    async with open_pool(migrated_database_url) as pool:
        admin = administrator(pool)
        account, other = [
            await admin_accounts.create(admin, NewAccount(name="keys", plan="Unlimited")) for _ in range(2)
        ]
        good, revoked = [await admin_keys.create(admin, account.id, NewKey()) for _ in range(2)]
        disabled = await admin_keys.create(admin, other.id, NewKey())
        await admin_keys.revoke(admin, revoked.id)
        await admin_accounts.change(admin, other.id, AccountChanges(disabled=True))
        checks = KeyChecks(pool)
        asked = [*(f"sk-{number}" for number in range(500)), revoked.key, disabled.key, good.key, good.key]
        before = pool.get_stats()["requests_num"]
        told = await asyncio.gather(*map(checks.counts, asked))
        assert told == [False] * 502 + [True] * 2
        assert pool.get_stats()["requests_num"] - before <= 2
        assert await checks.counts(good.key)


async def test_only_so_many_keys_wait_for_a_look_up(migrated_database_url: str) -> None:
    async with open_pool(migrated_database_url) as pool:
        account = await admin_accounts.create(administrator(pool), NewAccount(name="keys", plan="Unlimited"))
        key = (await admin_keys.create(administrator(pool), account.id, NewKey())).key
        checks = KeyChecks(pool, most_waiting=3)
        assert await asyncio.gather(*(checks.counts(key) for _ in range(5))) == [True] * 3 + [False] * 2
        assert await checks.counts(key)
