"""An account of the directory."""

import pytest

from administration import Admin, admin_accounts
from administration.admin_values import NewAccount
from runtime.postgres import Pool
from tests.administrator import administrator


@pytest.fixture
def admin(pool: Pool) -> Admin:
    return administrator(pool)


@pytest.fixture
async def account(admin: Admin) -> str:
    return (await admin_accounts.create(admin, NewAccount(name="Acme", plan="Pro"))).id
