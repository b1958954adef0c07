"""The whole system as a caller sees it: HTTP only, on the embedded stack."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from agentchat.administration import Admin, admin_accounts, admin_keys
from agentchat.administration.admin_values import NewAccount
from agentchat.administration.agent_versions import create_agent
from agentchat.administration.key_values import NewKey
from agentchat.directory.agent_config import McpServer
from agentchat.directory.agent_validation import AgentDraft
from agentchat.directory.secret_encryption import Sealer
from agentchat.ops import demo, folder_secrets
from agentchat.runtime.postgres import acquire_connection, open_pool
from tests.gateway.admin import AdminClient
from tests.harness import RunningStack
from tests.system.calling import AccountCallers, Caller, MakeAccount, MakeAgent, pro
from tests.webhooks.receiver import Receiver, open_receiver


@pytest.fixture(scope="session")
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=50, trust_env=False) as client:
        yield client


@pytest.fixture
def caller(stack: RunningStack, http: httpx.AsyncClient) -> Caller:
    """The Pro account with the demo agent."""
    return pro(stack, http)


@pytest.fixture
def policies(stack: RunningStack, http: httpx.AsyncClient) -> Caller:
    """The Pro account with the agent that answers from the demo's knowledge base."""
    return pro(stack, http, stack.environment.retrieval_agent_id)


@pytest.fixture
def starter(stack: RunningStack, http: httpx.AsyncClient) -> Caller:
    """The Starter account with its agent."""
    found = stack.environment
    return Caller(http, found.base_url, found.starter_api_key, found.starter_agent_id)


@pytest.fixture(scope="module")
async def make_agent(stack: RunningStack, http: httpx.AsyncClient) -> AsyncIterator[MakeAgent]:
    """Makes agents of the account without limits; `shop=True` adds the demo server's tools, or `allowed`.

    With `asks` a person has to allow each call.
    """
    found = stack.environment
    sealer = Sealer.from_setting(folder_secrets.load_or_create_secrets(stack.folder.secrets).secret_key)
    async with open_pool(found.database_url, role=None) as pool:

        async def make(
            model: str,
            *,
            shop: bool = False,
            allowed: tuple[str, ...] | None = None,
            asks: bool = False,
            servers: tuple[McpServer, ...] = (),
            **draft: Any,
        ) -> Caller:
            server = McpServer(
                name="shop",
                url=f"{found.mcp_base_url}/api/mcp",
                allowed_tools=allowed,
                require_approval="always" if asks else "never",
            )
            servers = (*servers, server) if shop else servers
            draft = {"name": "test", "provider_key": "offline"} | draft
            wanted = AgentDraft(model=model, mcp_servers=servers, **draft)
            async with acquire_connection(pool, seconds=10) as conn:
                agent_id = await create_agent(conn, sealer, demo.LOAD_ACCOUNT_ID, wanted, actor="tests")
            return Caller(http, found.base_url, found.load_api_key, agent_id)

        yield make


@pytest.fixture
async def admin(stack: RunningStack) -> AsyncIterator[Admin]:
    found = stack.environment
    sealer = Sealer.from_setting(folder_secrets.load_or_create_secrets(stack.folder.secrets).secret_key)
    async with open_pool(found.database_url) as pool:
        yield Admin(pool=pool, sealer=sealer, actor="tests")


@pytest.fixture
def admin_api(stack: RunningStack, http: httpx.AsyncClient) -> AdminClient:
    """The admin API of the first gateway, with the administrator's token."""
    return AdminClient(http, stack.environment.gateway_urls[0], stack.environment.admin_token)


@pytest.fixture
def make_account(stack: RunningStack, http: httpx.AsyncClient, admin: Admin) -> MakeAccount:
    """Makes an account with a key, and a caller of an agent of each model."""

    async def make(plan: str, *models: str) -> AccountCallers:
        account = (await admin_accounts.create(admin, NewAccount(name=plan, plan=plan))).id
        key = (await admin_keys.create(admin, account, NewKey())).key
        callers = []
        async with acquire_connection(admin.pool, seconds=10) as conn:
            for model in models:
                draft = AgentDraft(name=model, model=model, provider_key="offline")
                agent_id = await create_agent(conn, admin.sealer, account, draft, actor="tests")
                callers.append(Caller(http, stack.environment.base_url, key, agent_id))
        return AccountCallers(account, tuple(callers))

    return make


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver of webhooks."""
    async with open_receiver() as opened:
        yield opened
