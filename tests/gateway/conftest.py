"""A gateway process a module, its accounts, and a worker that the test plays."""

import asyncio
import base64
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import httpx
import msgspec
import pytest

from agentchat.administration import admin_accounts as directory
from agentchat.administration import admin_keys
from agentchat.administration.admin_values import NewAccount
from agentchat.administration.agent_versions import create_agent
from agentchat.administration.key_values import NewKey
from agentchat.bus.bus import Bus
from agentchat.directory.agent_validation import AgentDraft
from agentchat.runtime.postgres import Pool, acquire_connection, open_pool
from tests.administrator import SEALER, administrator
from tests.gateway.admin import TOKEN, AdminClient
from tests.gateway.client import Client
from tests.gateway.embedded import GatewayProcess, run_embedded_gateway
from tests.gateway.worker import Worker
from tests.support.embedded_service import EmbeddedService


class Account(msgspec.Struct, frozen=True):
    account_id: str
    key: str
    key_id: str
    agent: str
    second_agent: str

    def at(self, http: httpx.AsyncClient, gateway: EmbeddedService | GatewayProcess) -> Client:
        """A caller with its key and its first agent."""
        return Client(http, gateway.url, self.key, self.agent)


class Accounts(msgspec.Struct, frozen=True):
    """`free` is bound by nothing, `starter` on the plan without form 2."""

    free: Account
    other: Account
    starter: Account


@pytest.fixture(scope="module")
async def accounts(migrated_database_url: str) -> Accounts:
    async with open_pool(migrated_database_url) as pool:
        return Accounts(
            free=await make_account(pool, "Unlimited"),
            other=await make_account(pool, "Unlimited"),
            starter=await make_account(pool, "Starter"),
        )


async def make_account(pool: Pool, plan: str) -> Account:
    account = await directory.create(administrator(pool), NewAccount(name=plan, plan=plan))
    key = await admin_keys.create(administrator(pool), account.id, NewKey())
    draft = AgentDraft(name="Shop", model="demo-shop-1")
    async with acquire_connection(pool, seconds=30) as conn:
        agents = [await create_agent(conn, SEALER, account.id, draft, actor="test") for _ in range(2)]
    return Account(account.id, key.key, key.id, agents[0], agents[1])


@pytest.fixture(scope="module")
def environ(
    migrated_database_url: str,
    fresh_nats_url: str,
    redis_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, str]:
    return {
        "AGENTCHAT_FILES_URL": tmp_path_factory.mktemp("files").as_uri(),
        "AGENTCHAT_DATABASE_URL": migrated_database_url,
        "AGENTCHAT_NATS_URL": fresh_nats_url,
        "AGENTCHAT_REDIS_URL": redis_url,
    }


StartGateway = Callable[..., Awaitable[EmbeddedService]]
StartProcess = Callable[..., Awaitable[GatewayProcess]]


@pytest.fixture
async def start_gateway(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[StartGateway]:
    """Starts gateways of the test's own: `hurry` sets constants, other arguments its environment."""
    async with contextlib.AsyncExitStack() as running:

        async def start(hurry: Mapping[str, float] | None = None, **own: str) -> EmbeddedService:
            for name, value in (hurry or {}).items():
                monkeypatch.setattr(f"agentchat.gateway.{name}", value)
            return await running.enter_async_context(run_embedded_gateway(environ | own))

        yield start


@pytest.fixture
async def start_process(environ: dict[str, str], tmp_path: Path) -> AsyncIterator[StartProcess]:
    """Starts processes of the test's own, which it kills, signals, or whose log it reads."""
    async with contextlib.AsyncExitStack() as running:

        async def start(**own: str) -> GatewayProcess:
            folder = Path(tempfile.mkdtemp(dir=tmp_path))
            return await running.enter_async_context(GatewayProcess(folder, environ | own))

        yield start


@pytest.fixture(scope="module")
async def gateway(environ: dict[str, str]) -> AsyncIterator[EmbeddedService]:
    async with run_embedded_gateway(environ) as running:
        yield running


@pytest.fixture(scope="module")
async def gateway_as_a_process(
    environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[GatewayProcess]:
    """For modules that look at its log, its files, or how it ends."""
    async with GatewayProcess(tmp_path_factory.mktemp("gateway"), environ) as process:
        yield process


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
def client(http: httpx.AsyncClient, gateway: EmbeddedService, accounts: Accounts) -> Client:
    return accounts.free.at(http, gateway)


@pytest.fixture
def starter(http: httpx.AsyncClient, gateway: EmbeddedService, accounts: Accounts) -> Client:
    return accounts.starter.at(http, gateway)


@pytest.fixture(scope="module")
async def admin_gateway(environ: dict[str, str]) -> AsyncIterator[EmbeddedService]:
    """A gateway that serves the admin API too."""
    key = base64.b64encode(os.urandom(32)).decode()
    own = {"AGENTCHAT_ADMIN_TOKEN": TOKEN, "AGENTCHAT_SECRET_KEY": key}
    async with run_embedded_gateway(environ | own) as running:
        yield running


@pytest.fixture
def admin(http: httpx.AsyncClient, admin_gateway: EmbeddedService) -> AdminClient:
    return AdminClient(http, admin_gateway.url)


@pytest.fixture
async def account(admin: AdminClient) -> str:
    """The id of a new account, made by the admin API."""
    made: str = (await admin.post("/accounts", {"name": "Acme", "plan": "Pro"}))["id"]
    return made


@pytest.fixture(scope="module")
async def second_gateway(environ: dict[str, str]) -> AsyncIterator[EmbeddedService]:
    async with run_embedded_gateway(environ) as running:
        yield running


@pytest.fixture
def elsewhere(http: httpx.AsyncClient, second_gateway: EmbeddedService, accounts: Accounts) -> Client:
    """The caller of `client` at another gateway."""
    return accounts.free.at(http, second_gateway)
