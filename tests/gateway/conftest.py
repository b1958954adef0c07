"""A gateway process a module, its accounts, and a worker that the test plays."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import pytest

from bus import Bus
from conversations.store import ConversationStore, open_store
from directory.administration import create_account, create_agent, create_key, put_plan
from directory.agent_draft import AgentDraft
from directory.plans import Plan
from directory.secrets import Sealer
from runtime.postgres import Connection, connection, open_pool
from tests.bus.nats_server import NatsServer
from tests.gateway.client import Client
from tests.gateway.process import GatewayProcess
from tests.gateway.worker import Worker


class Account(msgspec.Struct, frozen=True):
    account_id: str
    key: str
    key_id: str
    agent: str
    second_agent: str


class Accounts(msgspec.Struct, frozen=True):
    """`free` is bound by nothing, `starter` on the plan without form 2, `tight` to 2 requests at once."""

    free: Account
    other: Account
    starter: Account
    tight: Account


TIGHT = Plan(
    name="Tight",
    requests_per_minute=2,
    concurrent_runs=None,
    tokens_per_month=None,
    form2_streaming=True,
    max_message_bytes=100,
)


@pytest.fixture(scope="module")
async def accounts(migrated_database_url: str) -> Accounts:
    async with (
        open_pool(migrated_database_url) as pool,
        connection(pool, seconds=30) as conn,
    ):
        await put_plan(conn, TIGHT, actor="test")
        return Accounts(
            free=await make_account(conn, "Unlimited"),
            other=await make_account(conn, "Unlimited"),
            starter=await make_account(conn, "Starter"),
            tight=await make_account(conn, "Tight"),
        )


async def make_account(conn: Connection, plan: str) -> Account:
    account = await create_account(conn, name=plan, plan=plan, actor="test")
    key = await create_key(conn, account.account_id, actor="test")
    draft = AgentDraft(name="Shop", model="demo-shop-1")
    sealer = Sealer(b"k" * 32)
    agents = [await create_agent(conn, sealer, account.account_id, draft, actor="test") for _ in range(2)]
    return Account(account.account_id, key.key, key.key_id, agents[0], agents[1])


@pytest.fixture(scope="module")
def environ(migrated_database_url: str, fresh_nats_url: str, redis_url: str) -> dict[str, str]:
    return {
        "AGENTCHAT_DATABASE_URL": migrated_database_url,
        "AGENTCHAT_NATS_URL": fresh_nats_url,
        "AGENTCHAT_REDIS_URL": redis_url,
    }


@pytest.fixture(scope="module")
async def gateway(
    environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[GatewayProcess]:
    process = GatewayProcess(tmp_path_factory.mktemp("gateway"), environ)
    await process.start()
    yield process
    await process.stop()


@pytest.fixture(scope="module")
async def worker(fresh_nats_url: str) -> AsyncIterator[Worker]:
    async with Bus.connect(fresh_nats_url, name="test-worker") as bus:
        played = Worker(bus)
        consuming = asyncio.create_task(played.run())
        yield played
        played.stop.set()
        await consuming


@pytest.fixture(scope="module")
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=None)) as client:
        yield client


@pytest.fixture
def client(http: httpx.AsyncClient, gateway: GatewayProcess, accounts: Accounts) -> Client:
    return Client(http, gateway.url, accounts.free.key, accounts.free.agent)


@pytest.fixture
def starter(http: httpx.AsyncClient, gateway: GatewayProcess, accounts: Accounts) -> Client:
    return Client(http, gateway.url, accounts.starter.key, accounts.starter.agent)


@pytest.fixture
async def nats_server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    """A NATS server of the test's own, to be killed and wiped."""
    server = NatsServer(tmp_path / "nats")
    await server.start()
    yield server
    await server.kill()


@pytest.fixture
async def store(migrated_database_url: str) -> AsyncIterator[ConversationStore]:
    async with open_store(migrated_database_url) as opened:
        yield opened
