"""Store administrators' named tokens, and look one up for each request of the admin API and the console.

Only the hash of a token is stored, as of API keys. A revoked token keeps its row, so that its name in the
audit log means one token for ever.
"""

import enum
import secrets

import msgspec

from agentchat.directory.api_keys import hash_key
from agentchat.runtime.postgres import Pool, acquire_connection

PREFIX = "at-ac-"
ENVIRONMENT_TOKEN = "admin"  # noqa: S105 - a name
"""The name of the token in AGENTCHAT_ADMIN_TOKEN, which is an owner and has no row."""

ENVIRONMENT_ACTOR = "admin-api"
"""The name of that token's user in the audit log, if the request does not name another."""

TABLE = """
CREATE TABLE admin_tokens (
    name text PRIMARY KEY,
    role text NOT NULL CHECK (role IN ('viewer', 'approver', 'operator', 'owner')),
    account_ids text[],
    token_hash bytea NOT NULL UNIQUE,
    last4 text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    last_used_at timestamptz,
    revoked_at timestamptz
);
GRANT SELECT, INSERT, UPDATE ON admin_tokens TO agentchat_service;
"""


class Role(enum.IntEnum):
    """A role of an administrator. Each role includes the roles before it."""

    VIEWER = 1
    """May read."""
    APPROVER = 2
    """May decide approvals."""
    OPERATOR = 3
    """May use playground and what-if, resend webhooks, change agents, tool servers and knowledge."""
    OWNER = 4
    """May change accounts, plans, keys and tokens, delete, and read the audit log."""

    @property
    def word(self) -> str:
        """The name in settings, pages and the database."""
        return self.name.lower()


class TokenHolder(msgspec.Struct, frozen=True, kw_only=True):
    """The holder of a token. `account_ids` are the accounts that it is limited to; None: it has all."""

    name: str
    role: Role
    account_ids: tuple[str, ...] | None = None


def generate_admin_token() -> str:
    """Return a new token: `at-ac-` and 43 URL-safe characters. It is shown once and not stored."""
    return PREFIX + secrets.token_urlsafe(32)


async def find_holder(pool: Pool, token: str) -> TokenHolder | None:
    """Return the holder of a token; None if it is unknown or revoked. Note its use, once a minute.

    Raises DatabaseUnavailable.
    """
    if not token.startswith(PREFIX):
        return None
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(_FIND, {"hash": hash_key(token)})).fetchone()
    return None if row is None else build_holder(*row)


def build_holder(name: str, role: str, account_ids: list[str] | None) -> TokenHolder:
    """Build a holder from its columns."""
    limit = None if account_ids is None else tuple(account_ids)
    return TokenHolder(name=name, role=Role[role.upper()], account_ids=limit)


_FIND = """
WITH used AS (
    UPDATE admin_tokens SET last_used_at = now()
     WHERE token_hash = %(hash)s AND revoked_at IS NULL
       AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute'))
SELECT name, role, account_ids FROM admin_tokens WHERE token_hash = %(hash)s AND revoked_at IS NULL
"""
