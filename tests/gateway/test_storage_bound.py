"""What an account's plan lets it store: refused beyond it are what writes to the log, and nothing else."""

import asyncio
import contextlib

import httpx
import msgspec
import pytest

from agentchat.contracts import ids, subjects
from agentchat.contracts.messages import (
    EraseAnswered,
    EraseConversation,
)
from agentchat.contracts.ownership import Owner
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.projections import conversations_table
from agentchat.conversations.queries.quota_figures import AccountFigures, read_current_month
from agentchat.directory.api_keys import Caller
from agentchat.gateway.access.quotas import CACHED_SECONDS, FigureCache, check_quotas
from agentchat.gateway.http.problems import Refusal
from agentchat.runtime.postgres import Pool, open_pool
from tests.administrator import plan_with, put_plan
from tests.gateway import stored
from tests.gateway.client import Client, check_problem
from tests.gateway.conftest import Account, make_account
from tests.gateway.test_rate_limits import read_states
from tests.gateway.worker import Worker
from tests.support.embedded_service import EmbeddedService

BOUND = 5_000
SMALL = plan_with("Small", requests_per_minute=6000, storage_bytes=BOUND)


async def read_stored(store: ConversationStore, pool: Pool, account: Account, reply: str) -> str:
    """A conversation with this reply, which is counted."""
    asked = stored.request(account)
    await stored.write(store, asked, *stored.has_ended(asked, reply, ids.make_id()))
    await stored.project(pool, conversations_table.PROJECTION)
    return asked.conversation_id


async def test_full_storage_refuses_writes_but_allows_deleting(
    gateway: EmbeddedService,
    http: httpx.AsyncClient,
    worker: Worker,
    store: ConversationStore,
    migrated_database_url: str,
) -> None:
    async with open_pool(migrated_database_url) as pool:
        await put_plan(pool, SMALL)
        account = await make_account(pool, SMALL.name)
        conversation_id = await read_stored(store, pool, account, "x" * BOUND)
    client = Client(http, gateway.url, account.key, account.agent)
    headers = {"X-Api-Key": account.key}
    thread = f"{gateway.url}/v1/conversations/{conversation_id}"

    refused = await client.post("/v1/chat", content=b'{"message":"Hi"}')
    problem = check_problem(refused, 403, "storage_full")
    assert problem["detail"] == "The plan lets the account store 5,000 bytes."
    assert '"storage";q=5000;qu="bytes"' in refused.headers["ratelimit-policy"]
    assert read_states(refused)["storage"] == {"r": 0}
    check_problem(await http.patch(thread, json={"title": "y"}, headers=headers), 403, "storage_full")
    check_problem(await http.post(f"{thread}/fork", headers=headers), 403, "storage_full")

    assert (await http.get(f"{thread}/messages", headers=headers)).status_code == 200
    async with worker.answer_requests(
        subjects.ALL_COMMANDS, EraseConversation, EraseAnswered(outcome="erased")
    ):
        assert (await http.delete(thread, headers=headers)).status_code == 204


@pytest.mark.parametrize(
    ("spent", "spent_by_user", "code"),
    [(9, 9, "quota_exceeded"), (0, 9, "user_quota_exceeded"), (0, 0, "storage_full")],
)
def test_of_several_spent_quotas_the_first_is_told(spent: int, spent_by_user: int, code: str) -> None:
    plan = plan_with("Narrow", tokens_per_month=9, user_tokens_per_month=9, storage_bytes=BOUND)
    caller = Caller(account_id="account", plan=plan, key_id="key", user_id="ada", now="2026-11-29T00:00:00Z")
    figures = AccountFigures(month="2026-11", month_tokens=spent, stored_bytes=BOUND)
    of_user = AccountFigures(month="2026-11", month_tokens=spent_by_user, stored_bytes=0)
    with pytest.raises(Refusal) as refused:
        check_quotas(caller, figures, of_user)
    assert refused.value.row.code == code


async def test_stored_bytes_are_reread_only_with_a_bound(
    store: ConversationStore, migrated_database_url: str
) -> None:
    now = 0.0
    async with contextlib.AsyncExitStack() as stack:
        pool = await stack.enter_async_context(open_pool(migrated_database_url))
        await put_plan(pool, SMALL)
        account = await make_account(pool, SMALL.name)
        month = await read_current_month(pool)
        caller = Caller(account_id=account.account_id, plan=SMALL, key_id=account.key_id, now=f"{month}-01")
        nothing = AccountFigures(month=month, month_tokens=0, stored_bytes=0)
        cache = FigureCache(pool, lambda: now)
        stack.push_async_callback(cache.aclose)
        assert await cache.get(caller) == nothing
        await read_stored(store, pool, account, "x" * BOUND)
        assert await cache.get(caller) == nothing
        now += CACHED_SECONDS
        assert (await cache.get(caller)) == nothing, "nobody waits"
        await asyncio.wait_for(cache.read(Owner(account.account_id)), 10)
        figures = await cache.get(caller)
        assert figures is not None
        assert figures.stored_bytes >= BOUND
    now += CACHED_SECONDS
    assert await cache.get(caller) == figures, "Postgres is away: what was read last"
    later = msgspec.structs.replace(caller, now="9999-12-01")
    assert await cache.get(later) is None, "the figures of another month refuse nobody"
    assert await FigureCache(pool).get(caller) is None, "nothing is known, and nothing refused"
