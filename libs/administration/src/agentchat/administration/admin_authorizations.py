"""Authorise agents at their tool servers by OAuth 2.1, independently of versions."""

from datetime import datetime

import msgspec

from agentchat.administration.admin import Admin, translate_errors
from agentchat.administration.admin_mcp_servers import get_named_server
from agentchat.administration.admin_values import Deletion
from agentchat.administration.agent_rows import AgentRow, find_agent
from agentchat.administration.checked_input import validate
from agentchat.administration.query_parameters import DryRun
from agentchat.administration.row_pages import find_row
from agentchat.contracts import subjects
from agentchat.contracts.admin_errors import Conflict, Invalid
from agentchat.contracts.authorizations import AuthorizationLinked, AuthorizeServer, derive_callback
from agentchat.contracts.http import OAUTH_CALLBACK
from agentchat.contracts.ids import make_id
from agentchat.contracts.timings import AUTHORIZE_SECONDS
from agentchat.directory.agent_validation import check_url
from agentchat.directory.tool_authorizations import (
    SECRETS,
    ClientAuthentication,
    Grant,
    OAuthClient,
    OAuthSettings,
    Scope,
    SealedSecrets,
    Text,
    ToolServerKey,
)
from agentchat.runtime.postgres import Connection

_KIND = "MCP authorization"


class AuthorizationBody(OAuthSettings, frozen=True, kw_only=True):
    """The settings of an authorization at a tool server: see docs/operate/tool-servers.md."""

    issuer: Text | None = None
    client_id: Text | None = None
    scope: Scope | None = None
    client_secret: Text | None = None

    def __repr__(self) -> str:
        """Leave out the secret."""
        return f"AuthorizationBody(grant={self.grant!r}, client_id={self.client_id!r})"


class ShownAuthorization(msgspec.Struct, frozen=True, kw_only=True):
    """An authorization at the tool server `url`. `status` is `authorized` or `needs_authorization`.

    `detail` says why it needs authorization. `expires_at` is that of the current access token, which is
    renewed automatically. `callback_path`, below AGENTCHAT_PUBLIC_URL, is the redirect URI to register with
    the issuer.
    """

    grant: Grant
    issuer: str | None
    client_id: str | None
    scope: str | None
    client_authentication: ClientAuthentication
    url: str
    status: str
    detail: str
    expires_at: datetime | None
    changed_at: datetime
    callback_path: str | None


class AuthorizationLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link that authorises the agent with the rights of the person who opens it. Keep it secret."""

    url: str


class _Row(msgspec.Struct, frozen=True):
    settings: str
    url: str
    status: str
    detail: str
    expires_at: datetime | None
    changed_at: datetime


async def get(admin: Admin, agent_id: str, name: str) -> ShownAuthorization:
    """Get how an agent is authorised at an MCP server. Raises NotFound."""
    async with admin.connection() as conn:
        row = await find_agent(conn, agent_id)
        return await _load_shown(conn, row, name)


async def put(admin: Admin, agent_id: str, name: str, body: AuthorizationBody) -> ShownAuthorization:
    """Set how an agent is authorised at an MCP server by OAuth.

    Tokens that were issued before are forgotten. Raises NotFound, Invalid.
    """
    body = validate(body)
    _check_body(body)
    async with admin.transaction() as conn:
        row = await find_agent(conn, agent_id, lock=True)
        url = get_named_server(row.settings.mcp_servers, name).url
        settings = OAuthSettings(**{field: getattr(body, field) for field in OAuthSettings.__struct_fields__})
        client = body.client_id and OAuthClient(
            id=body.client_id, secret=body.client_secret, authentication=body.client_authentication
        )
        plain = msgspec.json.encode(SealedSecrets(client=client or None)).decode()
        sealed = admin.sealer.seal(
            plain, owner=ToolServerKey(row.account_id, row.agent_id, name).seal_owner(SECRETS)
        )
        shown = msgspec.json.encode(settings).decode()
        await conn.execute(_PUT, [row.agent_id, name, make_id(), url, shown, sealed, _MISSING[body.grant]])
        await admin.note(conn, "set", _KIND, f"{row.agent_id}/{name}", after=settings)
        return await _load_shown(conn, row, name)


async def remove(admin: Admin, agent_id: str, name: str, *, dry_run: DryRun = False) -> Deletion:
    """Forget how an agent is authorised at an MCP server, and its tokens.

    The authorization server is not told: its tokens stay valid until they expire. Raises NotFound.
    """
    async with admin.transaction() as conn:
        row = await find_agent(conn, agent_id, lock=True)
        await _load_shown(conn, row, name)
        if not dry_run:
            await conn.execute(
                "DELETE FROM mcp_authorizations WHERE agent_id = %s AND server = %s", [row.agent_id, name]
            )
            await admin.note(conn, "delete", _KIND, f"{row.agent_id}/{name}")
    return Deletion(kind=_KIND, id=name, dry_run=dry_run)


async def link(admin: Admin, agent_id: str, name: str) -> AuthorizationLink:
    """Make the link at which a person authorises an agent at an MCP server.

    The link works once, for ten minutes, and replaces an earlier one. Raises NotFound, Conflict, Unavailable.
    """
    bus = admin.need_bus()
    async with admin.connection() as conn:
        row = await find_agent(conn, agent_id)
        await _load_shown(conn, row, name)
    asked = AuthorizeServer(account_id=row.account_id, agent_id=row.agent_id, server=name)
    with translate_errors():
        answer = await bus.rpc.ask(
            # Answered by tool_runner.authorization.authorization_links.
            subjects.TOOLS_AUTHORIZE,
            asked,
            AuthorizationLinked,
            timeout=AUTHORIZE_SECONDS,
        )
    if not answer.url:
        raise Conflict(answer.detail)
    async with admin.transaction() as conn:
        await admin.note(conn, "link", _KIND, f"{row.agent_id}/{name}")
    return AuthorizationLink(url=answer.url)


def _check_body(body: AuthorizationBody) -> None:
    if body.issuer is not None:
        check_url(body.issuer, "issuer")
    if body.grant == "client_credentials":
        for field in ("issuer", "client_id", "client_secret"):
            if getattr(body, field) is None:
                raise Invalid(field, "is needed for client_credentials")
    if body.client_id is not None and body.issuer is None:
        raise Invalid("issuer", "is needed: a client belongs to one authorization server")
    if body.client_secret is not None and body.client_id is None:
        raise Invalid("client_id", "is needed with client_secret")


async def _load_shown(conn: Connection, row: AgentRow, name: str) -> ShownAuthorization:
    kept = await find_row(conn, _Row, _GET, [row.agent_id, name], _KIND, name[:100])
    settings = msgspec.json.decode(kept.settings, type=OAuthSettings)
    others = msgspec.structs.asdict(kept)
    del others["settings"]
    shown = msgspec.structs.asdict(settings) | others
    return ShownAuthorization(**shown, callback_path=_get_callback_path(settings))


def _get_callback_path(settings: OAuthSettings) -> str | None:
    """Return the redirect path; None if the grant has none or the issuer is unknown."""
    if settings.grant != "authorization_code" or settings.issuer is None:
        return None
    return f"{OAUTH_CALLBACK}/{derive_callback(settings.issuer)}"


_MISSING: dict[Grant, str] = {
    "client_credentials": "no token has been asked for yet",
    "authorization_code": "an administrator has to open the authorization link",
}

_GET = """
SELECT settings::text, url, status, detail, expires_at, changed_at
  FROM mcp_authorizations WHERE agent_id = %s AND server = %s
"""

_PUT = """
INSERT INTO mcp_authorizations
    (agent_id, server, authorization_id, url, settings, secrets, status, detail)
VALUES (%s, %s, %s, %s, %s, %s, 'needs_authorization', %s)
ON CONFLICT (agent_id, server) DO UPDATE
   SET authorization_id = excluded.authorization_id, url = excluded.url, settings = excluded.settings,
       secrets = excluded.secrets, status = excluded.status, detail = excluded.detail, expires_at = NULL,
       link_state = NULL, link = NULL, link_until = NULL, changed_at = clock_timestamp()
"""
