"""Alerts that a fault can cause within a minute, on a running stack with Debian's Prometheus.

The rules are those of deploy/prometheus/alerts.yaml with short times. pytest does not collect this file
unless it is named.
"""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import httpx
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from administration.admin_versions import create_agent
from directory.agent_draft import AgentDraft
from directory.agents import McpServer
from directory.secrets import Sealer
from ops import demo, folder_secrets
from ops.servers import postgres_server
from ops.settings import Counts
from runtime import failpoints
from runtime.postgres import connection, open_pool
from tests.deploy.prometheus import PROMETHEUS, Prometheus, running_prometheus
from tests.harness import RunningStack, start_stack, temporary_folder
from tests.system.calling import Caller

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(PROMETHEUS is None, reason="Prometheus is not installed: apt-get install prometheus"),
]

ONLY_UNIT_TESTED = {
    "AgentchatMemoryNearLimit": "a process would have to take 435 MiB",
    "AgentchatWebhooksBehind": "it takes 10,000 events that wait for one endpoint",
}
_SLOTS = 6
_FIRING_SECONDS = 120.0
Again = Callable[[], Awaitable[object]]


class Rig:
    """The stack, its Prometheus, and agents on the demo model."""

    def __init__(self, stack: RunningStack, prometheus: Prometheus, http: httpx.AsyncClient) -> None:
        self.stack = stack
        self.prometheus = prometheus
        self.http = http

    async def agent(self, model: str, *, shop: bool = False, asks: bool = False) -> Caller:
        """A caller of the account without limits, with an agent on this model and, with `shop`, the tools."""
        found = self.stack.environment
        sealer = Sealer.from_setting(folder_secrets.keep(self.stack.folder.secrets).secret_key)
        server = McpServer(
            name="shop",
            url=f"{found.mcp_base_url}/api/mcp",
            require_approval="always" if asks else "never",
        )
        draft = AgentDraft(
            name="test",
            model=model,
            provider_key="offline",
            parameters={"max_tokens": 2_000_000},
            mcp_servers=(server,) if shop else (),
        )
        async with open_pool(found.database_url, role=None) as pool, connection(pool, seconds=10) as conn:
            agent_id = await create_agent(conn, sealer, demo.LOAD_ACCOUNT_ID, draft, actor="tests")
        return Caller(self.http, found.base_url, found.load_api_key, agent_id)

    async def fires(self, alert: str, again: Again | None = None, **labels: str) -> None:
        """Until the alert fires, calling `again` meanwhile. Raises TimeoutError."""
        async with asyncio.timeout(_FIRING_SECONDS):
            while not (found := await self.prometheus.firing(alert, **labels)):
                await asyncio.gather(*([again()] if again else []), asyncio.sleep(0.5))
        assert "{{" not in found[0]["summary"]

    async def quiet(self, *alerts: str) -> None:
        """Until none of them fires. Raises TimeoutError."""
        async with asyncio.timeout(_FIRING_SECONDS):
            for alert in alerts:
                while await self.prometheus.firing(alert):  # noqa: ASYNC110 - of another process
                    await asyncio.sleep(0.5)

    @contextlib.contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """A process that neither answers nor ends."""
        self.stack.kill(name, signal.SIGSTOP)
        try:
            yield
        finally:
            self.stack.kill(name, signal.SIGCONT)


@pytest.fixture(scope="module")
async def rig() -> AsyncIterator[Rig]:
    counts = Counts(gateways=2, orchestrators=2)
    environ = {"AGENTCHAT_RUN_SLOTS": str(_SLOTS), failpoints.VARIABLE: "1"}
    with temporary_folder() as name:
        (name / "run" / failpoints.FOLDER).mkdir(parents=True)
        (name / "run" / failpoints.TEST_RUN).touch()
        (name / "prometheus").mkdir()
        stack = start_stack(name / "run", counts, environ)
        try:
            await stack.wait_up()
            async with (
                httpx.AsyncClient(timeout=100, trust_env=False) as http,
                running_prometheus(stack, name / "prometheus") as prometheus,
            ):
                yield Rig(stack, prometheus, http)
        finally:
            await stack.stop()


@pytest.fixture(autouse=True)
async def healed(rig: Rig) -> AsyncIterator[None]:
    """The next fault comes to a stack that is well."""
    yield
    await rig.stack.wait_all_ready()


@contextlib.asynccontextmanager
async def meanwhile(*calls: Awaitable[object]) -> AsyncIterator[None]:
    """These run while the block does, whatever becomes of them."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _all(*calls: Awaitable[object]) -> None:
    """Whatever they answer, or fail with."""
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_projector_that_is_frozen_is_a_service_down_and_nobody_leads(rig: Rig) -> None:
    await rig.quiet("AgentchatServiceDown", "AgentchatNoProjectorLeads")
    with rig.stopped("projector-1"):
        await rig.fires("AgentchatNoProjectorLeads")
        await rig.fires("AgentchatServiceDown", job="projector")
    await rig.quiet("AgentchatServiceDown", "AgentchatNoProjectorLeads")


async def test_a_gateway_that_is_frozen_next_to_another_is_a_process_down(rig: Rig) -> None:
    await rig.quiet("AgentchatProcessDown")
    with rig.stopped("gateway-2"):
        await rig.fires("AgentchatProcessDown", job="gateway")
    assert not await rig.prometheus.firing("AgentchatServiceDown", job="gateway")


async def test_a_process_without_processor_time_has_a_late_event_loop(rig: Rig) -> None:
    async def deprive() -> None:
        for _ in range(3):
            with rig.stopped("projector-1"):
                await asyncio.sleep(0.7)
            await asyncio.sleep(0.2)

    await rig.fires("AgentchatEventLoopLate", deprive, job="projector")


async def test_a_provider_that_fails_is_reported_by_name_and_its_callers_get_a_5xx(rig: Rig) -> None:
    await rig.quiet("AgentchatRunsFailing", "AgentchatProviderFailing", "AgentchatRequestsFailing")
    failing = await rig.agent("demo-echo?fail=529&retry_after=60")

    async def chats() -> None:
        await _all(*(failing.chat("Hello") for _ in range(3)))

    await rig.fires("AgentchatProviderFailing", chats, provider="anthropic")
    await rig.fires("AgentchatRequestsFailing", chats)
    assert not await rig.prometheus.firing("AgentchatRunsFailing")


async def test_a_fault_of_the_program_is_an_internal_error_the_first_time(rig: Rig) -> None:
    assert not await rig.prometheus.query("agentchat_runs_ended_total{code='internal_error'}")
    agent = await rig.agent("demo-echo")
    (rig.stack.folder.path / failpoints.FOLDER / "orchestrator-before-model").write_text("raise")
    answer = await agent.chat("Hello")
    assert answer.json()["code"] == "internal_error"
    await rig.fires("AgentchatInternalErrors")


async def test_runs_whose_tools_cannot_be_listed_fail(rig: Rig) -> None:
    agent = await rig.agent("demo-echo", shop=True)
    with rig.stopped("tool-runner-1"):
        await _all(*(agent.chat("Hello") for _ in range(4)))
    await rig.fires("AgentchatRunsFailing")


async def test_a_model_that_is_slow_to_begin_makes_first_deltas_slow(rig: Rig) -> None:
    agent = await rig.agent("demo-echo?first_ms=11000")
    await _all(*(agent.stream("Hello") for _ in range(10)))
    await rig.fires("AgentchatFirstDeltaSlow")


async def test_more_streams_than_slots_fill_them_and_requests_wait(rig: Rig) -> None:
    agent = await rig.agent("demo-echo?first_ms=25000")
    async with meanwhile(*(agent.stream("Hello") for _ in range(2 * _SLOTS + 3))):
        await rig.fires("AgentchatRequestsWaiting")
        await rig.fires("AgentchatSlotsFull")
    await rig.quiet("AgentchatRequestsWaiting", "AgentchatSlotsFull")  # the runs go on without their callers


async def test_workers_that_are_killed_have_their_runs_taken_over(rig: Rig) -> None:
    await rig.quiet("AgentchatRunsTakenOver")
    agent = await rig.agent("demo-load?deltas=100&delay_ms=200")
    slow = [agent.opened("Hello") for _ in range(5)]
    async with contextlib.AsyncExitStack() as opened:
        for stream in slow:
            await opened.enter_async_context(stream)
        rig.stack.kill("orchestrator-1")
        rig.stack.kill("orchestrator-2")
        await rig.fires("AgentchatRunsTakenOver")


async def test_a_tool_server_that_is_away_is_reported_by_name(rig: Rig) -> None:
    agent = await rig.agent('demo-shop-1?tool=get_order&input={"order_id":"ORD-1001"}&rounds=5', shop=True)
    assert (await agent.chat("Hello")).status_code == 200  # its tools have been listed

    async def chats_without_it() -> None:
        with contextlib.suppress(Exception):
            rig.stack.kill("mcp-demo")
        await _all(*(agent.chat("Hello") for _ in range(2)))

    await rig.fires("AgentchatToolServerFailing", chats_without_it, server="shop")


async def test_an_approval_that_nobody_decides_is_reported(rig: Rig) -> None:
    agent = await rig.agent('demo-shop-1?tool=get_order&input={"order_id":"ORD-1001"}', shop=True, asks=True)
    answer = await agent.chat("Hello")
    assert answer.json()["code"] == "approval_required"
    await rig.fires("AgentchatApprovalsWaiting")


def owner_of(stack: RunningStack) -> str:
    key = folder_secrets.keep(stack.folder.secrets).servers_key
    password = folder_secrets.login_password(key, postgres_server.NAME, postgres_server.OWNER)
    return make_conninfo(stack.environment.database_url, user=postgres_server.OWNER, password=password)


async def test_a_table_that_somebody_locks_leaves_the_read_models_behind(rig: Rig) -> None:
    agent = await rig.agent("demo-echo")
    async with await psycopg.AsyncConnection.connect(owner_of(rig.stack)) as conn:
        await conn.execute("SET idle_in_transaction_session_timeout = 0")
        await conn.execute("LOCK TABLE messages IN ACCESS EXCLUSIVE MODE")
        async with meanwhile(agent.chat("Hello")):
            await rig.fires("AgentchatReadModelsBehind", follower="read models")


async def test_endpoints_that_refuse_connections_make_webhooks_fail(rig: Rig) -> None:
    agent = await rig.agent("demo-echo")
    key = {"X-Api-Key": agent.headers["X-Api-Key"]}
    for number in range(6):
        endpoint = {"url": f"http://127.0.0.1:9/{number}", "events": ["run.completed"]}
        made = await rig.http.post(f"{agent.base_url}/v1/webhook_endpoints", headers=key, json=endpoint)
        assert made.status_code == 201, made.text
    await agent.chat("Hello")
    await rig.fires("AgentchatWebhooksFailing")


async def test_redis_that_is_frozen_leaves_decisions_to_the_gateways(rig: Rig) -> None:
    agent = await rig.agent("demo-echo")

    async def chat() -> None:
        await _all(agent.chat("Hello"))

    with rig.stopped("valkey"):
        await rig.fires("AgentchatDecidesWithoutRedis", chat)


async def test_nats_that_is_frozen_during_replies_drops_frames_and_leaves_the_feed_behind(rig: Rig) -> None:
    long = await rig.agent(f"demo-echo?say={'word' * 25}&repeat=40000&deltas=400&delay_ms=150")  # 4 MB
    short = await rig.agent("demo-load?deltas=300&delay_ms=20")
    async with contextlib.AsyncExitStack() as opened:
        for agent in (long, long, long, long, short):
            await opened.enter_async_context(agent.opened("Hello"))
        with rig.stopped("nats"):  # the short run ends in the log meanwhile
            await rig.fires("AgentchatFramesDropped", job="orchestrator")
            await rig.fires("AgentchatFeedBehind")
