"""Retries of one request in the table of claims: which of them runs, and for how long it is known."""

import asyncio
import uuid

from contracts.ids import new_id
from conversations.claims.idempotency import Claim, forget_old_keys, give_up
from conversations.claims.table import Claims
from conversations.claims.tries import TRIES_SECONDS, Try, answered, claim_try
from conversations.event_store.store import ConversationStore
from runtime.postgres import Pool, connection
from tests.conversations.test_idempotency import _request
from tests.gateway.stored import write


async def _now(pool: Pool) -> str:
    async with connection(pool) as conn:
        row = await (await conn.execute("SELECT clock_timestamp()::text")).fetchone()
    assert row is not None
    return str(row[0])


async def _claim(
    claims: Claims, request: str, *, first: bool, asked_at: str | None = None, seconds: float = 15.0
) -> Claim | None:
    attempted = Try(
        account_id="a", request=request, first=first, asked_at=asked_at or await _now(claims.pool)
    )
    return await claim_try(
        claims, attempted, trace_id=uuid.uuid4().hex, conversation_id=new_id(), seconds=seconds
    )


async def _pass(pool: Pool, seconds: float) -> None:
    async with connection(pool) as conn:
        await conn.execute(
            "UPDATE idempotency_keys SET created_at = created_at - make_interval(secs => %(s)s),"
            " claimed_until = claimed_until - make_interval(secs => %(s)s),"
            " kept_until = kept_until - make_interval(secs => %(s)s) WHERE account_id = 'a'",
            {"s": seconds},
        )


async def test_of_many_retries_at_once_one_is_to_publish(claims: Claims, pool: Pool) -> None:
    request, asked_at = new_id(), await _now(pool)
    made = await asyncio.gather(
        *(_claim(claims, request, first=number == 7, asked_at=asked_at) for number in range(16))
    )
    assert len({claim.trace_id for claim in made if claim}) == 1
    assert [claim.mine for claim in made if claim].count(True) == 1
    assert None not in made


async def test_a_first_try_long_after_a_retry_is_another_request(claims: Claims, pool: Pool) -> None:
    request = new_id()
    later = await _claim(claims, request, first=False)
    await _pass(pool, 6)
    assert await _claim(claims, request, first=True) is None
    assert await _claim(claims, request, first=False) is None, "nobody knows which one it repeats"
    await _pass(pool, TRIES_SECONDS)
    fresh = await _claim(claims, request, first=True)
    assert later is not None
    assert fresh is not None
    assert fresh.mine
    assert fresh.trace_id != later.trace_id


async def test_a_retry_whose_run_never_began_is_published_again(
    claims: Claims, pool: Pool, store: ConversationStore
) -> None:
    request = new_id()
    first = await _claim(claims, request, first=True)
    joined = await _claim(claims, request, first=False)
    await _pass(pool, 15)
    again = await _claim(claims, request, first=False)
    assert first is not None
    assert joined is not None
    assert again is not None
    assert not joined.mine
    assert (again.mine, again.publication) == (True, 2)
    assert again.trace_id == joined.trace_id == first.trace_id
    assert again.conversation_id == first.conversation_id
    await write(store, _request(again))
    await _pass(pool, 15)
    found = await _claim(claims, request, first=False)
    assert found is not None
    assert (found.mine, found.begun_at) == (False, 2)


async def test_a_refused_try_leaves_nothing_and_an_old_one_is_forgotten(claims: Claims, pool: Pool) -> None:
    refused, old, kept = new_id(), new_id(), new_id()
    claim = await _claim(claims, refused, first=True)
    assert claim is not None
    await give_up(pool, claim, refused=True)
    fresh = await _claim(claims, refused, first=False)
    assert fresh is not None
    assert fresh.mine
    await _claim(claims, old, first=True)
    await _pass(pool, TRIES_SECONDS)
    await _claim(claims, kept, first=True)
    await forget_old_keys(pool)
    async with connection(pool) as conn:
        cursor = await conn.execute("SELECT count(*) FROM idempotency_keys WHERE account_id = 'a'")
        assert await cursor.fetchone() == (1,)


async def test_a_first_try_that_comes_behind_the_answer_of_a_later_one_joins_it(
    claims: Claims, pool: Pool
) -> None:
    attempted = Try(account_id="a", request=new_id(), first=False, asked_at=await _now(pool))
    later = await _claim(claims, attempted.request, first=False)
    assert later is not None
    await answered(claims, attempted, later.trace_id)
    joined = await _claim(claims, attempted.request, first=True, asked_at=attempted.asked_at)
    assert joined is not None
    assert joined.trace_id == later.trace_id
    assert not joined.mine


async def test_a_later_try_that_came_before_the_answer_joins_and_one_behind_it_does_not(
    claims: Claims, pool: Pool
) -> None:
    attempted = Try(account_id="a", request=new_id(), first=True, asked_at=await _now(pool))
    first = await _claim(claims, attempted.request, first=True)
    asked_at = await _now(pool)
    assert first is not None
    await answered(claims, attempted, first.trace_id)
    joined = await _claim(claims, attempted.request, first=False, asked_at=asked_at)
    assert joined is not None
    assert joined.trace_id == first.trace_id
    fresh = await _claim(claims, attempted.request, first=False)
    assert fresh is not None
    assert fresh.trace_id != first.trace_id


async def test_what_was_answered_is_joined_for_a_moment(claims: Claims, pool: Pool) -> None:
    attempted = Try(
        account_id="a", request=new_id(), first=True, asked_at=await _now(pool), answered_seconds=10
    )
    first = await _claim(claims, attempted.request, first=True)
    assert first is not None
    await answered(claims, attempted, first.trace_id)
    joined = await _claim(claims, attempted.request, first=False)
    assert joined is not None
    assert joined.trace_id == first.trace_id
    await _pass(pool, 10)
    fresh = await _claim(claims, attempted.request, first=False)
    assert fresh is not None
    assert fresh.trace_id != first.trace_id
