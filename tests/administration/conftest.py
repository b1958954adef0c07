"""Administration on a migrated database, without HTTP and without a bus."""

import pytest

from agentchat.administration import Admin, admin_accounts
from agentchat.administration.admin_values import Account, NewAccount
from agentchat.directory.secret_encryption import Sealer
from agentchat.runtime.postgres import Pool

SEALER = Sealer(b"k" * 32)


@pytest.fixture
def admin(pool: Pool) -> Admin:
    return Admin(pool=pool, sealer=SEALER, actor="ada@cli")


@pytest.fixture
async def account(admin: Admin) -> Account:
    return await admin_accounts.create(admin, NewAccount(name="Acme", plan="Pro"))
