"""How an agent is authorised at a tool server by OAuth 2.1: one row for each server, outside the versions.

Settings stand in the open; the client's secret, the tokens and what a link waits for are sealed. A row is for
one address: the tokens of a server whose URL was changed go nowhere.
"""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Literal

import msgspec

from agentchat.directory.agent_config import seal_owner
from agentchat.directory.secrets import Sealer
from agentchat.runtime.postgres import Connection, Pool, acquire_connection

LOCKED_SECONDS = 20.0
"""Longer than a worker needs to get a token, and than another waits for it."""

_LOCK = 0x6F617574  # the space of these advisory locks: "oaut"
SECRETS: Literal["mcp_authorization"] = "mcp_authorization"
PENDING: Literal["mcp_authorization_link"] = "mcp_authorization_link"
"""What the two sealed columns are sealed as."""

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
    """What of an authorisation is no secret, as it was accepted when it was set.

    `issuer` is the authorization server that `client_id` belongs to; without both, the client registers
    itself with the server that the tool server names. `scope` None: what the tool server asks for.
    """

    grant: Grant
    issuer: str | None = None
    client_id: str | None = None
    scope: str | None = None
    client_authentication: ClientAuthentication = "client_secret_basic"


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks for tokens. Without a `secret` it is a public client (RFC 6749 2.1)."""

    id: str
    secret: str | None = None
    authentication: str = "client_secret_basic"


class IssuedTokens(msgspec.Struct, frozen=True, kw_only=True):
    """What was issued last, and where the next one is to be had (`endpoint`, for `resource`, RFC 8707)."""

    access: str
    refresh: str | None
    scope: str | None
    endpoint: str
    resource: str


class SealedSecrets(msgspec.Struct, frozen=True, kw_only=True):
    """The sealed part of a row."""

    client: Client | None = None
    tokens: IssuedTokens | None = None


class PendingLink(msgspec.Struct, frozen=True, kw_only=True):
    """What a link needs for its end. The answer is to name the `issuer` where `names_issuer`."""

    verifier: str
    redirect_uri: str
    client: Client
    endpoint: str
    resource: str
    issuer: str
    names_issuer: bool
    scope: str | None


class ToolServerKey(msgspec.Struct, frozen=True):
    account_id: str
    agent_id: str
    server: str

    def owner(self, purpose: str) -> str:
        return seal_owner(self.account_id, self.agent_id, f"{purpose}/{self.server}")


class Authorization(msgspec.Struct, frozen=True, kw_only=True):
    """A row, unsealed. `seconds_left` of the access token are by Postgres' clock; None: not known."""

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
    """The one lock of this authorisation, of all processes, within this block; at most LOCKED_SECONDS.

    It is an advisory lock of the connection, outside any transaction: it ends with the process that holds it,
    and no row is held meanwhile. Raises DatabaseUnavailable.
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
    """The row of this server. Raises SealBroken."""
    row = await (await conn.execute(_FIND, [place.agent_id, place.server])).fetchone()
    if row is None:
        return None
    plain = sealer.open(row[3], owner=place.owner(SECRETS))
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
    """Store what was issued; False if another authorisation has taken the place of `found_id`.

    `new_id`: somebody else may be authorised from now on, so that sessions begin again.
    """
    sealed = sealer.seal(msgspec.json.encode(secrets).decode(), owner=place.owner(SECRETS))
    asked = [new_id or found_id, sealed, expires_in, place.agent_id, place.server, found_id]
    return (await conn.execute(_KEEP, asked)).rowcount == 1


async def require_authorization(
    conn: Connection, sealer: Sealer, place: ToolServerKey, found_id: str, secrets: SealedSecrets, detail: str
) -> None:
    """Note that an administrator has to authorise the agent again because of `detail`; `secrets` are left."""
    sealed = sealer.seal(msgspec.json.encode(secrets).decode(), owner=place.owner(SECRETS))
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
    """Let the answer with this `state` be taken, once, within `seconds`; an earlier link ends with it."""
    sealed = sealer.seal(msgspec.json.encode(link).decode(), owner=place.owner(PENDING))
    asked = [_hashed(state), sealed, seconds, place.agent_id, place.server, found_id]
    await conn.execute(_KEEP_LINK, asked)


async def take_link(
    conn: Connection, sealer: Sealer, state: str
) -> tuple[ToolServerKey, str, PendingLink] | None:
    """The link of this `state` with its authorisation's id; nobody gets it again. Raises SealBroken."""
    row = await (await conn.execute(_TAKE_LINK, [_hashed(state)])).fetchone()
    if row is None:
        return None
    place = ToolServerKey(*row[:3])
    plain = sealer.open(row[4], owner=place.owner(PENDING))
    return place, row[3], msgspec.json.decode(plain, type=PendingLink)


def _hashed(state: str) -> bytes:
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

# Of two with one state, the second waits for the row and finds it changed.
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
