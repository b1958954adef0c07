"""Idempotency keys: one run for each, whoever asks, and whatever dies between the claim and the run."""

import asyncio
import uuid
from collections.abc import Sequence

import pytest

from agentchat.contracts.events import ConversationErased
from agentchat.contracts.ids import make_id
from agentchat.contracts.messages import ChatRequested
from agentchat.contracts.ownership import Owner
from agentchat.conversations.erasures import Erasure, finish_chunk, load_chunk
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.idempotency.claim_writer import Claims
from agentchat.conversations.idempotency.idempotency_keys import (
    Claim,
    KeyConflict,
    claim_key,
    extend_claim,
    forget_old_keys,
    give_up_claim,
    is_repeat,
)
from agentchat.runtime.postgres import Pool, acquire_connection
from tests.conversations.given import request, trace
from tests.gateway.stored import AT, has_ended, write


async def _claim(
    claims: Claims, account: str, *, key: str = "k", body: bytes = b"body", seconds: float = 15.0
) -> Claim:
    return await claim_key(
        claims,
        owner=Owner(account),
        key=key,
        request_hash=body,
        trace_id=_trace(),
        conversation_id=make_id(),
        seconds=seconds,
    )


def _trace() -> str:
    return uuid.uuid4().hex


async def _let_a_day_pass(pool: Pool) -> None:
    async with acquire_connection(pool) as conn:
        await conn.execute("UPDATE idempotency_keys SET created_at = created_at - interval '24 hours'")


def _request(claim: Claim) -> ChatRequested:
    ids = {name: getattr(claim, name) for name in ("trace_id", "account_id", "conversation_id")}
    return request(**ids, agent_id=make_id(), new_conversation=True, message_id=make_id(), form="json")


def _list_places(made: Sequence[Claim]) -> set[tuple[str, str]]:
    return {(claim.trace_id, claim.conversation_id) for claim in made}


async def test_of_many_claims_of_an_idempotency_key_one_is_to_publish(claims: Claims, pool: Pool) -> None:
    account = make_id()
    made = await asyncio.gather(*(_claim(claims, account) for _ in range(20)))
    assert [claim.publication for claim in made] == [1] * 20
    assert sum(claim.mine for claim in made) == 1
    assert len(_list_places(made)) == 1
    assert await is_repeat(pool, Owner(account), "k")
    assert not await is_repeat(pool, Owner(make_id()), "k")
    assert (await _claim(claims, make_id())).mine


async def test_a_claim_is_on_disk_before_its_request_is_published(claims: Claims, pool: Pool) -> None:
    """A crash of Postgres would take the key, while NATS has the request, which then runs twice."""
    for _ in range(10):
        async with acquire_connection(pool) as conn:
            before = await (await conn.execute("SELECT pg_current_wal_insert_lsn()")).fetchone()
        await _claim(claims, make_id())
        async with acquire_connection(pool) as conn:
            query = "SELECT pg_current_wal_flush_lsn() > %s::pg_lsn"
            assert await (await conn.execute(query, before)).fetchone() == (True,)


async def test_other_request_conflicts_until_the_key_is_free(claims: Claims, pool: Pool) -> None:
    account = make_id()
    first = await _claim(claims, account)
    with pytest.raises(KeyConflict):
        await _claim(claims, account, body=b"other")
    await give_up_claim(pool, first, refused=True)
    assert not await is_repeat(pool, Owner(account), "k")
    other = await _claim(claims, account, body=b"other")
    assert other.mine
    assert other.trace_id != first.trace_id


async def test_an_unused_claim_is_taken_over_unchanged(claims: Claims, pool: Pool) -> None:
    account = make_id()
    first = await _claim(claims, account, seconds=0.0)
    assert not await is_repeat(pool, Owner(account), "k")
    made = await asyncio.gather(*(_claim(claims, account) for _ in range(5)))
    assert sum(claim.mine for claim in made) == 1
    assert {claim.publication for claim in made} == {2}
    assert _list_places(made) == _list_places([first])
    with pytest.raises(KeyConflict):
        await _claim(claims, account, body=b"other")


async def test_what_was_published_twice_is_not_freed_by_a_refusal(claims: Claims, pool: Pool) -> None:
    account = make_id()
    first = await _claim(claims, account, seconds=0.0)
    second = await _claim(claims, account)
    await give_up_claim(pool, first, refused=True)  # too late: it is another's
    assert not (await _claim(claims, account)).mine
    await give_up_claim(pool, second, refused=True)
    third = await _claim(claims, account)
    assert (third.mine, third.publication, third.trace_id) == (True, 3, first.trace_id)


async def test_a_queued_request_keeps_its_claim(claims: Claims, pool: Pool) -> None:
    account = make_id()
    first = await _claim(claims, account, seconds=0.0)
    await extend_claim(pool, first, 30.0)
    known = await _claim(claims, account)
    assert not known.mine
    assert 20 < known.seconds <= 30


async def test_an_idempotency_key_stands_for_its_run_for_a_day(
    claims: Claims, pool: Pool, store: ConversationStore
) -> None:
    account = make_id()
    first = await _claim(claims, account, seconds=0.0)
    await write(store, _request(first))
    assert await is_repeat(pool, Owner(account), "k")
    again = await _claim(claims, account)
    assert (again.mine, again.publication, again.seconds) == (False, 1, 0.0)
    assert again.begun_at == 2
    assert _list_places([again]) == _list_places([first])
    with pytest.raises(KeyConflict):
        await _claim(claims, account, body=b"other")
    await _let_a_day_pass(pool)
    assert not await is_repeat(pool, Owner(account), "k")
    late = await _claim(claims, account, body=b"other")
    assert (late.mine, late.publication) == (True, 1)
    assert late.trace_id != first.trace_id


async def test_old_idempotency_keys_expire(claims: Claims, pool: Pool) -> None:
    old, kept = make_id(), make_id()
    await _claim(claims, old)
    await _let_a_day_pass(pool)
    await _claim(claims, kept)
    await forget_old_keys(pool)
    async with acquire_connection(pool) as conn:
        query = "SELECT account_id FROM idempotency_keys WHERE account_id = ANY(%s)"
        assert await (await conn.execute(query, [[old, kept]])).fetchall() == [(kept,)]


async def test_a_key_stands_for_its_run_after_its_conversation_was_deleted(
    claims: Claims, pool: Pool, store: ConversationStore
) -> None:
    account = make_id()
    first = await _claim(claims, account, seconds=0.0)
    await write(store, _request(first), *has_ended(_request(first), "Hello."))
    begun = await store.load(first.conversation_id)
    await store.append(begun, [ConversationErased(trace_id=trace("erase"), at=AT, account_id=account)])
    await finish_chunk(pool, await load_chunk(pool, Erasure(first.conversation_id, [], 0), 100))
    again = await _claim(claims, account)
    assert (again.mine, again.publication) == (True, 2)
    assert _list_places([again]) == _list_places([first])
    with pytest.raises(KeyConflict):
        await _claim(claims, account, body=b"other")


async def test_a_row_holds_neither_its_key_nor_a_hash_to_try_messages_on(claims: Claims, pool: Pool) -> None:
    accounts = [make_id(), make_id()]
    for account, key in zip(accounts, ("a-canary", "b-canary"), strict=True):
        await _claim(claims, account, key=key, body=b"asked")
    async with acquire_connection(pool) as conn:
        query = "SELECT kept::text, request_hash FROM idempotency_keys kept WHERE account_id = ANY(%s)"
        rows = await (await conn.execute(query, [accounts])).fetchall()
    assert not any("canary" in text for text, _ in rows)
    assert len({b"asked", *(stored for _, stored in rows)}) == 3
