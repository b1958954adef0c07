"""New claims that wait go to Postgres in one statement, and each is made as if it had gone alone."""

import asyncio
import contextlib
import uuid

import psycopg

from agentchat.contracts.ids import make_id
from agentchat.contracts.ownership import Owner
from agentchat.conversations.idempotency.claim_writer import Claims
from agentchat.conversations.idempotency.idempotency_keys import Claim, claim_key, compute_key_hash
from agentchat.runtime.postgres import CALL_SECONDS, DatabaseUnavailable, Pool, acquire_connection, open_pool

_BREAK = """
SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity
WHERE datname = current_database() AND query LIKE '%INSERT INTO idempotency_keys%' AND pid <> pg_backend_pid()
"""


def _claim(claims: Claims, account: str, key: str, body: bytes = b"body") -> "asyncio.Task[Claim]":
    return asyncio.create_task(
        claim_key(
            claims,
            owner=Owner(account),
            key=key,
            request_hash=body,
            trace_id=uuid.uuid4().hex,
            conversation_id=make_id(),
            seconds=15.0,
        )
    )


async def test_each_key_is_claimed_once_by_concurrent_requests(
    claims: Claims, migrated_database_url: str
) -> None:
    account = make_id()
    async with open_pool(migrated_database_url) as pool, contextlib.aclosing(Claims(pool)) as others:
        keys = [f"k{number}" for number in range(40)]
        orders = (claims, keys), (others, keys[::-1]), (claims, keys[::-1]), (others, keys)
        made = await asyncio.gather(
            *(_claim(gateway, account, key) for gateway, all_ in orders for key in all_)
        )
    assert sum(claim.mine for claim in made) == len(keys)
    assert len({claim.trace_id for claim in made}) == len(keys)
    assert {claim.publication for claim in made} == {1}


async def test_new_keys_share_one_connection(claims: Claims, pool: Pool) -> None:
    account = make_id()
    before = pool.get_stats()["requests_num"]
    made = await asyncio.gather(*(_claim(claims, account, f"k{number}") for number in range(50)))
    assert all(claim.mine for claim in made)
    assert pool.get_stats()["requests_num"] - before == 1


async def test_only_the_claim_of_a_locked_key_fails(claims: Claims, migrated_database_url: str) -> None:
    account = make_id()
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as other:
        await other.execute(
            "INSERT INTO idempotency_keys VALUES (%s, %s, '', 't', 'c', 1, clock_timestamp())",
            [account, compute_key_hash(Owner(account), "k0")],
        )
        told = await asyncio.gather(
            *(_claim(claims, account, f"k{number}") for number in range(6)), return_exceptions=True
        )
    assert [type(each) for each in told] == [DatabaseUnavailable, *[Claim] * 5]


async def test_broken_connection_reports_no_conflict(claims: Claims, migrated_database_url: str) -> None:
    """The server may have made the claim, and its request would wait for one that is not on its way."""
    account = make_id()
    assert (await _claim(claims, account, "first")).mine
    async with (
        open_pool(migrated_database_url, role=None) as owner,
        acquire_connection(owner, seconds=20) as locking,
        locking.transaction(),
    ):
        await locking.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        await locking.execute("LOCK TABLE idempotency_keys")
        waiting = [_claim(claims, account, f"k{number}") for number in range(3)]
        with psycopg.connect(migrated_database_url, autocommit=True) as breaking:
            async with asyncio.timeout(CALL_SECONDS):
                while (True,) not in breaking.execute(_BREAK).fetchall():  # noqa: ASYNC110 - a table has no event
                    await asyncio.sleep(0)
        told = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in told] == [DatabaseUnavailable] * 3
    assert (await _claim(claims, account, "k0")).mine
