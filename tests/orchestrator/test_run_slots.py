"""Run slots: a message that waits in line holds none; its run begins only with one again."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from redis.asyncio import Redis

from agentchat.administration import admin_accounts
from agentchat.administration.admin_values import NewAccount
from agentchat.contracts import frames
from agentchat.directory.plans import Plan
from agentchat.limits import Limiter
from agentchat.orchestrator.services import Timings
from agentchat.runtime.postgres import open_pool
from tests.administrator import administrator, put_plan
from tests.limits.given import make_id
from tests.orchestrator.given import SECONDS, Listener, World
from tests.orchestrator.scripted import ScriptedProvider, is_holding, reply_with

PLAN = Plan(
    name="Two",
    requests_per_minute=None,
    concurrent_runs=2,
    tokens_per_month=None,
    form2_streaming=True,
    max_message_bytes=None,
)
_QUICK_SECONDS = 0.01
"""Between heartbeats: so often that a slot which a heartbeat takes wrongly is seen at once."""
_A_LOOK = 0.6


class Account:
    """An account of two runs at once, whose requests take their slots as at a gateway."""

    def __init__(self, world: World, limiter: Limiter, redis: "Redis", agent: str) -> None:
        self.world = world
        self.agent = agent
        self._limiter = limiter
        self._redis = redis

    async def admits(self, trace_id: str) -> bool:
        return (await self._limiter.admit(self.world.account_id, PLAN, trace_id)).allowed

    async def fill(self) -> list[str]:
        """Two runs elsewhere, whatever else is under way."""
        others = [make_id(), make_id()]
        await self._limiter.hold([(self.world.account_id, other) for other in others])
        return others

    async def count_held(self, trace_id: str, times: int = 3) -> None:
        """Until the worker has so often held the slots of its runs: one that is lost comes back with that."""
        slots = f"limits:{{{self.world.account_id}}}:slots"
        async with asyncio.timeout(SECONDS):
            for _ in range(times):
                await self._redis.zrem(slots, trace_id)
                while await self._redis.zscore(slots, trace_id) is None:  # noqa: ASYNC110
                    await asyncio.sleep(_QUICK_SECONDS / 5)

    async def free(self, trace_id: str) -> None:
        await self._limiter.release(self.world.account_id, trace_id)

    async def ask(
        self,
        message: str,
        before: Listener | None = None,
        *,
        asked_ago: float = 0.0,
        admitted: bool = False,
        version: int | None = None,
    ) -> Listener:
        """`admitted`: with a slot that is taken before the request is published, as at a gateway."""
        request = self.world.request(self.agent, message, agent_version=version)
        if before is not None:
            conversation_id = before.request.conversation_id
            request = msgspec.structs.replace(
                request, conversation_id=conversation_id, new_conversation=False
            )
        asked = datetime.now(UTC) - timedelta(seconds=asked_ago)
        request = msgspec.structs.replace(request, requested_at=asked.isoformat().replace("+00:00", "Z"))
        listener = await self.world.listen(request)
        if admitted:
            assert await self.admits(request.trace_id)
        await self.world.bus.queues.request_chat(request)
        return listener


@pytest.fixture
async def account(world: World, limiter: Limiter, redis_url: str) -> AsyncIterator[Account]:
    many_beats = Timings(renew_seconds=_QUICK_SECONDS, limits_seconds=5.0)
    async with open_pool(world.settings.database_url, role=None) as pool:
        await put_plan(pool, PLAN)
        made = await admin_accounts.create(administrator(pool), NewAccount(name="Two", plan=PLAN.name))
        own = world.create_account_world(made.id)
        async with own.worker(timings=many_beats), Redis.from_url(redis_url) as redis:
            yield Account(own, limiter, redis, await own.agent())


async def test_a_queued_message_frees_its_run_slot(account: Account, provider: ScriptedProvider) -> None:
    gate = asyncio.Event()
    provider.will(is_holding(gate, "..."), reply_with("two"))
    first = await account.ask("first")
    await first.until(frames.DeltaFrame)
    assert await account.admits(first.request.trace_id)
    waiter = await account.ask("second", first, admitted=True)  # held until the worker has said Queued
    await waiter.until(frames.Queued)
    await account.count_held(first.request.trace_id)  # the slots of those that wait are not renewed
    other = make_id()
    assert await account.admits(other)
    assert not await account.admits(make_id())
    gate.set()
    await waiter.until(frames.Completed)
    async with asyncio.timeout(SECONDS):  # a slot is freed after the frame that ends its run
        while not await account.admits(make_id()):  # noqa: ASYNC110 - the gateway's next request asks again
            await asyncio.sleep(_QUICK_SECONDS / 5)


@pytest.mark.parametrize("in_line", [True, False])
async def test_a_run_begins_only_when_the_account_has_a_free_slot(
    account: Account, provider: ScriptedProvider, in_line: bool
) -> None:
    gate = asyncio.Event()
    if in_line:
        provider.will(is_holding(gate, "..."), reply_with("two"))
        first = await account.ask("first")
        await first.until(frames.DeltaFrame)
        late = await account.ask("second", first)
        await late.until(frames.Queued)
        others = await account.fill()
        gate.set()
        await first.until(frames.Completed)
    else:  # taken up so late that its gateway has given up
        provider.will(reply_with("two"))
        others = await account.fill()
        late = await account.ask("second", asked_ago=5)
        await late.until(frames.Queued)
    await asyncio.sleep(_A_LOOK)  # for a first try, of which there is no sign
    assert not late.of(frames.Accepted)
    await account.free(others[0])
    await late.until(frames.Completed)
    await account.free(others[1])


async def test_a_message_without_a_slot_times_out(account: Account, provider: ScriptedProvider) -> None:
    provider.will(reply_with("never"))
    await account.fill()
    late = await account.ask("late", asked_ago=26)  # a message that is read after 30 s is answered by nobody
    assert (await late.until(frames.Refused)).code == "rate_limited"
    assert not late.of(frames.Accepted)


async def test_an_operators_message_takes_its_slot_at_the_worker(
    account: Account, provider: ScriptedProvider
) -> None:
    provider.will(reply_with("from a gateway"), reply_with("from an operator"))
    one, other = await account.fill()
    await (await account.ask("has a slot", version=None)).until(frames.Completed)
    asked = await account.ask("has none", version=1)
    await asked.until(frames.Queued)
    await account.free(one)
    await account.free(other)
    await asked.until(frames.Completed)
