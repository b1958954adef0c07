"""An account of the directory."""

import pytest

from agentchat.administration import Admin, admin_accounts
from agentchat.administration.admin_values import NewAccount
from agentchat.runtime.postgres import Pool
from tests.administrator import administrator


@pytest.fixture
def admin(pool: Pool) -> Admin:
    return administrator(pool)


@pytest.fixture
async def account(admin: Admin) -> str:
    return (await admin_accounts.create(admin, NewAccount(name="Acme", plan="Pro"))).id
