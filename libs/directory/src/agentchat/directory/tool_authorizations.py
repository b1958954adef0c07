"""Store the OAuth 2.1 authorizations of agents at tool servers.

Each server has one row, outside the agent's versions. The client's secret, the tokens and pending links are
sealed; the other settings are not. A row belongs to one URL: if that changes, its tokens are sent nowhere.
"""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Literal

import msgspec

from agentchat.directory.agent_config import seal_owner
from agentchat.directory.secret_encryption import Sealer
from agentchat.runtime.postgres import Connection, Pool, acquire_connection

LOCKED_SECONDS = 20.0
"""Longer than a worker needs to get a token, and longer than others wait for it."""

_LOCK = 0x6F617574  # the space of these advisory locks: "oaut"
SECRETS: Literal["mcp_authorization"] = "mcp_authorization"
PENDING: Literal["mcp_authorization_link"] = "mcp_authorization_link"
"""The purposes for which the two sealed columns are sealed."""

Grant = Literal["client_credentials", "authorization_code"]
Status = Literal["authorized", "needs_authorization"]
ClientAuthentication = Literal["client_secret_basic", "client_secret_post"]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=2048, pattern=r"^[\x20-\x7e]+$(?!\n)")]
SCOPE_CHARS = 1024
_PART = r"[\x21\x23-\x5b\x5d-\x7e]+"
SCOPE = rf"^{_PART}( {_PART})*$(?!\n)"
"""RFC 6749 3.3: tokens without quotes, backslashes and controls, a space between two."""

Scope = Annotated[str, msgspec.Meta(max_length=SCOPE_CHARS, pattern=SCOPE)]


class OAuthSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of an authorization that are not secret, as an administrator set them.

    `issuer` is the authorization server that `client_id` belongs to. Without both, the client registers
    itself at the authorization server that the tool server names. With `scope` None, the scope that the tool
    server asks for is used.
    """

    grant: Grant
    issuer: str | None = None
    client_id: str | None = None
    scope: str | None = None
    client_authentication: ClientAuthentication = "client_secret_basic"


class OAuthClient(msgspec.Struct, frozen=True, kw_only=True):
    """The OAuth client. Without a `secret` it is a public client (RFC 6749, 2.1)."""

    id: str
    secret: str | None = None
    authentication: str = "client_secret_basic"


class IssuedTokens(msgspec.Struct, frozen=True, kw_only=True):
    """The last tokens, and the `endpoint` and `resource` (RFC 8707) to get the next ones with."""

    access: str
    refresh: str | None
    scope: str | None
    endpoint: str
    resource: str


class SealedSecrets(msgspec.Struct, frozen=True, kw_only=True):
    """The sealed part of a row."""

    client: OAuthClient | None = None
    tokens: IssuedTokens | None = None


class PendingLink(msgspec.Struct, frozen=True, kw_only=True):
    """The values needed to complete a link.

    With `names_issuer`, the answer must name the `issuer`.
    """

    verifier: str
    redirect_uri: str
    client: OAuthClient
    endpoint: str
    resource: str
    issuer: str
    names_issuer: bool
    scope: str | None


class ToolServerKey(msgspec.Struct, frozen=True):
    """The identity of a tool server: its agent's account, its agent, and its name."""

    account_id: str
    agent_id: str
    server: str

    def seal_owner(self, purpose: str) -> str:
        """Return the owner that a secret of this server is sealed for."""
        return seal_owner(self.account_id, self.agent_id, f"{purpose}/{self.server}")


class Authorization(msgspec.Struct, frozen=True, kw_only=True):
    """An unsealed row. `seconds_left` of the access token are None if unknown."""

    id: str
    url: str
    settings: OAuthSettings
    secrets: SealedSecrets
    status: Status
    seconds_left: float | None

    def __repr__(self) -> str:
        return f"Authorization(url={self.url!r}, status={self.status!r})"


@asynccontextmanager
async def lock_authorization(pool: Pool, place: ToolServerKey) -> AsyncIterator[Connection]:
    """Lock this authorization against all other processes for the block.

    The lock lasts at most LOCKED_SECONDS. It is an advisory lock of the connection, outside any transaction:
    it ends with the process that holds it, and locks no row.

    Raises:
        DatabaseUnavailable: If Postgres does not answer, or the lock is not free in time.
    """
    name = f"{place.agent_id}/{place.server}"
    async with acquire_connection(pool, seconds=LOCKED_SECONDS) as conn:
        await conn.execute("SELECT pg_advisory_lock(%s, hashtext(%s))", [_LOCK, name])
        try:
            yield conn
        finally:
            if not conn.closed:
                await conn.execute("SELECT pg_advisory_unlock(%s, hashtext(%s))", [_LOCK, name])


async def find(conn: Connection, sealer: Sealer, place: ToolServerKey) -> Authorization | None:
    """Return the authorization of a server; None if there is none. Raises SealBroken."""
    row = await (await conn.execute(_FIND, [place.agent_id, place.server])).fetchone()
    if row is None:
        return None
    plain = sealer.open(row[3], owner=place.seal_owner(SECRETS))
    return Authorization(
        id=row[0],
        url=row[1],
        settings=msgspec.json.decode(row[2], type=OAuthSettings),
        secrets=msgspec.json.decode(plain, type=SealedSecrets),
        status=row[4],
        seconds_left=row[5],
    )


async def keep_tokens(
    conn: Connection,
    sealer: Sealer,
    place: ToolServerKey,
    found_id: str,
    secrets: SealedSecrets,
    expires_in: int | None,
    *,
    new_id: str | None = None,
) -> bool:
    """Store issued tokens; return False if another authorization has replaced `found_id`.

    With `new_id`, the authorization gets a new id, so that sessions at the tool server start again. It is
    given if the tokens may belong to another user.
    """
    sealed = sealer.seal(msgspec.json.encode(secrets).decode(), owner=place.seal_owner(SECRETS))
    asked = [new_id or found_id, sealed, expires_in, place.agent_id, place.server, found_id]
    return (await conn.execute(_KEEP, asked)).rowcount == 1


async def require_authorization(
    conn: Connection, sealer: Sealer, place: ToolServerKey, found_id: str, secrets: SealedSecrets, detail: str
) -> None:
    """Note that the agent needs a new authorization because of `detail`; keep `secrets`."""
    sealed = sealer.seal(msgspec.json.encode(secrets).decode(), owner=place.seal_owner(SECRETS))
    asked = [sealed, detail, place.agent_id, place.server, found_id]
    await conn.execute(_NEED, asked)


async def keep_link(
    conn: Connection,
    sealer: Sealer,
    place: ToolServerKey,
    found_id: str,
    state: str,
    link: PendingLink,
    seconds: int,
) -> None:
    """Store a pending link, which ends after `seconds` and replaces an earlier one."""
    sealed = sealer.seal(msgspec.json.encode(link).decode(), owner=place.seal_owner(PENDING))
    asked = [_hash_state(state), sealed, seconds, place.agent_id, place.server, found_id]
    await conn.execute(_KEEP_LINK, asked)


async def take_link(
    conn: Connection, sealer: Sealer, state: str
) -> tuple[ToolServerKey, str, PendingLink] | None:
    """Remove and return the link with this `state`, and its authorization's id.

    Raises SealBroken.
    """
    row = await (await conn.execute(_TAKE_LINK, [_hash_state(state)])).fetchone()
    if row is None:
        return None
    place = ToolServerKey(*row[:3])
    plain = sealer.open(row[4], owner=place.seal_owner(PENDING))
    return place, row[3], msgspec.json.decode(plain, type=PendingLink)


def _hash_state(state: str) -> bytes:
    return hashlib.sha256(state.encode()).digest()


_FIND = """
SELECT authorization_id, url, settings::text, secrets, status,
       extract(epoch FROM expires_at - clock_timestamp())::float8
  FROM mcp_authorizations WHERE agent_id = %s AND server = %s
"""

_KEEP = """
UPDATE mcp_authorizations
   SET authorization_id = %s, secrets = %s, status = 'authorized', detail = '',
       changed_at = clock_timestamp(), expires_at = clock_timestamp() + make_interval(secs => %s::integer)
 WHERE agent_id = %s AND server = %s AND authorization_id = %s
"""

_NEED = """
UPDATE mcp_authorizations
   SET secrets = %s, status = 'needs_authorization', detail = %s,
       expires_at = NULL, changed_at = clock_timestamp()
 WHERE agent_id = %s AND server = %s AND authorization_id = %s
"""

_KEEP_LINK = """
UPDATE mcp_authorizations
   SET link_state = %s, link = %s, link_until = clock_timestamp() + make_interval(secs => %s)
 WHERE agent_id = %s AND server = %s AND authorization_id = %s
"""

# Of two requests with the same state, the second waits for the row lock and then finds the link gone.
_TAKE_LINK = """
UPDATE mcp_authorizations a SET link_state = NULL, link = NULL, link_until = NULL
  FROM mcp_authorizations b JOIN agents g ON g.agent_id = b.agent_id
 WHERE b.link_state = %s AND a.agent_id = b.agent_id AND a.server = b.server AND a.link_state = b.link_state
   AND b.link_until > clock_timestamp()
RETURNING g.account_id, a.agent_id, a.server, a.authorization_id, b.link
"""

TABLE = """
CREATE TABLE mcp_authorizations (
    agent_id text NOT NULL REFERENCES agents ON DELETE CASCADE,
    server text NOT NULL,
    authorization_id text NOT NULL,
    url text NOT NULL,
    settings json NOT NULL,
    secrets bytea NOT NULL,
    status text NOT NULL,
    detail text NOT NULL DEFAULT '',
    expires_at timestamptz,
    link_state bytea UNIQUE,
    link bytea,
    link_until timestamptz,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (agent_id, server)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON mcp_authorizations TO agentchat_service;
"""
